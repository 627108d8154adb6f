package v2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is aiven.nais.io/v2.
var GroupVersion = schema.GroupVersion{Group: "aiven.nais.io", Version: "v2"}

// AddToScheme makes the types of this package known to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	b := runtime.NewSchemeBuilder(addKnownTypes)
	return b.AddToScheme(s)
}

func addKnownTypes(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &AivenApplication{}, &AivenApplicationList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
