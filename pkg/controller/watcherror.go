package controller

import (
	"context"
	"io"
	"strings"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	toolscache "k8s.io/client-go/tools/cache"
)

// WatchErrorHandler returns what a manager's cache calls when a list or a watch fails (cache.Options,
// DefaultWatchErrorHandler). It counts, and it says in the log which right is missing where that is the reason;
// otherwise the log shows what it would without it. The watch is tried again in any case.
//
// client-go does not call it while the API server refuses connections: it then tries again by itself, which shows in
// rest_client_requests_total{code="<error>"}, a metric of client-go that controller-runtime registers.
func (m *Metrics) WatchErrorHandler(logger logr.Logger) toolscache.WatchErrorHandlerWithContext {
	return func(ctx context.Context, r *toolscache.Reflector, err error) {
		kind := r.TypeDescription() // *v1.Secret, or apps/v1, Kind=Deployment
		kind = kind[strings.LastIndexAny(kind, ".=")+1:]
		missing, forbidden := MissingPermission(err)
		switch {
		case forbidden:
			m.watchErrors.WithLabelValues(kind, "forbidden").Inc()
			logger.Error(err, "a permission is missing", "user", missing.User, "verb", missing.Verb,
				"resource", missing.Resource, "group", missing.Group, "namespace", missing.Namespace)
			return
		case err == io.EOF: //nolint:errorlint // the end of a watch, which comes every few minutes; a wrapped one is another matter
		case apierrors.IsResourceExpired(err), apierrors.IsGone(err):
			m.watchErrors.WithLabelValues(kind, "expired").Inc()
		default:
			m.watchErrors.WithLabelValues(kind, "failed").Inc()
		}
		toolscache.DefaultWatchErrorHandler(ctx, r, err)
	}
}
