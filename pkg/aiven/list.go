package aiven

import (
	"context"
	"encoding/json"
	"net/http"
)

// Listed is a service as the list of its project has it.
type Listed struct {
	Ref
	Type string // one of TypeKafka, TypeOpenSearch, TypeValkey, or another of Aiven's
}

// Services lists the services of a project, whatever their state. The answer is not kept. ErrNotFound: there is no such project.
func (c *Client) Services(ctx context.Context, project string) ([]Listed, error) {
	cl := call{operation: "ServiceList", project: project, tried: "list services of " + project, read: true}
	if err := checkNames(cl.tried, project); err != nil {
		return nil, err
	}
	var list []Listed
	err := c.do(ctx, cl, func(ctx context.Context) error {
		list = nil
		return c.request(ctx, http.MethodGet, path(project, "service"), nil, func(d *json.Decoder) (err error) {
			list, err = decodeServices(d, project)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// decodeServices reads names and types; the rest is skipped, as in decodeService.
func decodeServices(d *json.Decoder, project string) ([]Listed, error) {
	var list []Listed
	listed := false
	err := decodeObject(d, func(key string) (bool, error) {
		if key != "services" {
			return false, nil
		}
		listed = true
		return true, array(d, func() error {
			s := Listed{Ref: Ref{Project: project}}
			err := object(d, func(key string) (bool, error) {
				switch key {
				case "service_name":
					return true, d.Decode(&s.Service)
				case "service_type":
					return true, d.Decode(&s.Type)
				default:
					return false, nil
				}
			})
			if err == nil && (s.Service == "" || s.Type == "") {
				err = errIncomplete
			}
			list = append(list, s)
			return err
		})
	})
	if err == nil && !listed { // not to be taken for a project without services
		err = errIncomplete
	}
	return list, err
}
