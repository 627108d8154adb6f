package aivensim

import (
	"strconv"
	"testing"
)

func TestJournalIsBounded(t *testing.T) {
	s := New(Options{})
	for i := range 2*journalSize + 500 {
		s.journal.record(&call{}, Entry{Request: Request{Project: strconv.Itoa(i)}})
	}
	j := s.Journal()
	if len(j) != journalSize || j[0].Project != "10500" || j[journalSize-1].Project != "20499" {
		t.Errorf("want the last %d requests, got %d from %s", journalSize, len(j), j[0].Project)
	}
}
