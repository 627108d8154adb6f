package aivensim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// In JSON, durations are texts ("20ms"), and a field that does not exist is an error.

// decodeStrict reads JSON into what into points to, which must not have an UnmarshalJSON of its own. Values that the JSON
// does not have stay. Errors name the field.
func decodeStrict(data []byte, into any) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return errors.New("want a JSON object, got nothing")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return fmt.Errorf("decode JSON: %w", err)
	}
	v, err := mapTexts(v, reflect.TypeOf(into), "", func(v any, t reflect.Type, at string) (any, error) {
		text, _ := v.(string)
		if t == reflect.TypeFor[Latency]() {
			if _, err := ParseLatency(text); err != nil {
				return nil, fmt.Errorf("%s: %w", at, err)
			}
			return v, nil
		}
		d, err := time.ParseDuration(text)
		if err != nil {
			return nil, fmt.Errorf(`%s: want a duration such as "20ms"`, at)
		}
		return int64(d), nil
	})
	if err != nil {
		return err
	}
	d = json.NewDecoder(bytes.NewReader(encode(v)))
	d.DisallowUnknownFields()
	err = d.Decode(into)
	if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s: want %s, got %s", t.Field, t.Type, t.Value)
	}
	if err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "json: ")) // it names an unknown field
	}
	return nil
}

// encodeTexts returns v as JSON, with durations as texts.
func encodeTexts(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var out any
	if err := d.Decode(&out); err != nil {
		return nil, err
	}
	out, err = mapTexts(out, reflect.TypeOf(v), "", func(v any, t reflect.Type, _ string) (any, error) {
		if t == reflect.TypeFor[Latency]() {
			return v, nil
		}
		n, err := v.(json.Number).Int64()
		return time.Duration(n).String(), err
	})
	if err != nil {
		return nil, err
	}
	return json.Marshal(out)
}

// mapTexts applies f to the durations and latencies of a decoded JSON value that belongs to a type: itself, and in fields
// at any depth.
func mapTexts(v any, t reflect.Type, at string, f func(v any, t reflect.Type, at string) (any, error)) (any, error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == reflect.TypeFor[time.Duration]() || t == reflect.TypeFor[Latency]() {
		return f(v, t, at)
	}
	object, ok := v.(map[string]any)
	if !ok || t.Kind() != reflect.Struct {
		return v, nil
	}
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		inner, ok := object[name]
		if !ok {
			continue
		}
		mapped, err := mapTexts(inner, field.Type, strings.TrimPrefix(at+"."+name, "."), f)
		if err != nil {
			return nil, err
		}
		object[name] = mapped
	}
	return object, nil
}
