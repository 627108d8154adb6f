package controller

import (
	"context"
	"sync"

	"github.com/giantswarm/micrologger/loggermeta"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// logLabels say in log lines which pass a call belongs to.
type logLabels struct {
	controller, loop string
	event            string        // "update" or "delete"; empty in a periodic round
	object           client.Object // nil in a periodic round
}

// callContext is the context of one call of a resource. A resource that was written for operatorkit finds the labels of its log
// lines in it, by loggermeta.FromContext, and may change them. They are its own. They are made when somebody asks for them,
// because most resources never do.
type callContext struct {
	context.Context
	labels   *logLabels
	resource string

	once sync.Once
	meta *loggermeta.LoggerMeta
}

// Value returns the labels to loggermeta, and all else as the context around it does.
func (s *callContext) Value(key any) any {
	if key != loggerMetaKey {
		return s.Context.Value(key)
	}
	s.once.Do(func() {
		s.meta = loggermeta.New()
		s.meta.KeyVals["controller"] = s.labels.controller
		s.meta.KeyVals["loop"] = s.labels.loop
		s.meta.KeyVals["resource"] = s.resource
		if s.labels.object != nil {
			s.meta.KeyVals["event"] = s.labels.event
			s.meta.KeyVals["version"] = s.labels.object.GetResourceVersion()
			s.meta.KeyVals["object"] = client.ObjectKeyFromObject(s.labels.object).String()
		}
	})
	return s.meta
}

// loggerMetaKey is the key by which loggermeta asks contexts for its value. It is not exported, so that loggermeta is made
// to ask.
var loggerMetaKey = func() any {
	var asked keyOf
	loggermeta.FromContext(&asked)
	return asked.key
}()

// keyOf is a context that remembers what it was asked for.
type keyOf struct {
	context.Context
	key any
}

// Value remembers key. It has no value.
func (k *keyOf) Value(key any) any {
	k.key = key
	return nil
}
