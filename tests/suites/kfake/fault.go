package kfake

import (
	"reflect"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Fault is an error that one request of these keys is answered with, if When agrees.
type Fault struct {
	Keys []kmsg.Key
	Err  *kerr.Error
	When func(kmsg.Request) bool
}

// Fault answers one request with an error.
func (c *Cluster) Fault(f Fault) {
	for _, key := range f.Keys {
		c.ControlKey(int16(key), func(request kmsg.Request) (kmsg.Response, error, bool) {
			if f.When != nil && !f.When(request) {
				return nil, nil, false
			}
			response := request.ResponseKind()
			code := reflect.ValueOf(response).Elem().FieldByName("ErrorCode")
			code.SetInt(int64(f.Err.Code))
			return response, nil, true
		})
	}
}
