package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// draw plots the time and the memory over the number of applications, a line for each number of Pods, into dir.
func draw(rows []row, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, of := range []struct {
		file, label string
		y           func(row) float64
	}{
		{"growth-time.svg", "until all are Ready [s]", func(r row) float64 { return r.all }},
		{"growth-memory.svg", "settled memory [MB]", func(r row) float64 { return r.memory / 1e6 }},
	} {
		p := plot.New()
		p.X.Label.Text, p.Y.Label.Text = "applications", of.label
		p.Y.Min = 0
		p.Legend.Top, p.Legend.Left = true, true
		points := map[int]plotter.XYs{}
		var pods []int
		for _, r := range rows {
			if points[r.pods] == nil {
				pods = append(pods, r.pods)
			}
			points[r.pods] = append(points[r.pods], plotter.XY{X: float64(r.applications), Y: of.y(r)})
		}
		var lines []any
		for _, m := range pods {
			lines = append(lines, strconv.Itoa(m)+" Pods", points[m])
		}
		if err := plotutil.AddLinePoints(p, lines...); err != nil {
			return fmt.Errorf("draw %s: %w", of.file, err)
		}
		if err := p.Save(14*vg.Centimeter, 9*vg.Centimeter, filepath.Join(dir, of.file)); err != nil {
			return fmt.Errorf("draw %s: %w", of.file, err)
		}
	}
	return nil
}
