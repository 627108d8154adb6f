package v2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
)

// AivenApplication asks for credentials on shared Aiven services. Each service that it
// names gets a service user of its own, whose credentials are written to a Secret in the
// same namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=aivenapplications,shortName=aivenapp
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Paused",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Paused")].status`
// +kubebuilder:printcolumn:name="Expires",type=string,priority=1,JSONPath=`.spec.expiresAt`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type AivenApplication struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What the application asks for. An application that asks for nothing is fine, and ready.
	// +optional
	Spec AivenApplicationSpec `json:"spec,omitempty"`

	// What has become of it. Written by the operator.
	// +optional
	Status v1.AivenApplicationStatus `json:"status,omitempty"`
}

// AivenApplicationList is a list of AivenApplications.
//
// +kubebuilder:object:root=true
type AivenApplicationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AivenApplication `json:"items"`
}

// AivenApplicationSpec is what an application asks for.
//
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule=`!has(self.valkey) || (oldSelf.hasValue() && has(oldSelf.value().valkey) && oldSelf.value().valkey == self.valkey && (has(oldSelf.value().secretName) ? oldSelf.value().secretName : "") == (has(self.secretName) ? self.secretName : "")) || !self.valkey.exists(a, self.valkey.exists(b, a.instance != b.instance && (a.?secretName.orValue("") != "" ? a.secretName : (has(self.secretName) ? self.secretName : "")) == (b.?secretName.orValue("") != "" ? b.secretName : (has(self.secretName) ? self.secretName : "")) && a.instance.replace("-", "_").replace(".", "_") == b.instance.replace("-", "_").replace(".", "_")))`,fieldPath=".valkey",message="two instances whose names become the same variable must have different Secrets",messageExpression=`"instances %s become the same variable and must have different Secrets".format([self.valkey.map(a, self.valkey.exists(b, a.instance != b.instance && (a.?secretName.orValue("") != "" ? a.secretName : (has(self.secretName) ? self.secretName : "")) == (b.?secretName.orValue("") != "" ? b.secretName : (has(self.secretName) ? self.secretName : "")) && a.instance.replace("-", "_").replace(".", "_") == b.instance.replace("-", "_").replace(".", "_")), a.instance)])`
type AivenApplicationSpec struct {
	// Deprecated: only kept so that an application written through v1 does not lose it.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self == "" || self.matches("^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")`,message="secretName must be a valid Secret name: lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit"
	SecretName string `json:"secretName,omitempty"`

	// Keeps the application's Secrets even while no workload uses them, for
	// credentials that are used outside the cluster. Together with expiresAt, until then.
	// +optional
	Protected bool `json:"protected,omitempty"`

	// The moment at which this application is deleted, as an RFC 3339 time such as
	// 2030-01-31T12:00:00Z. Its Secrets go once no workload uses them.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`self.matches("^[0-9]{4}-[0-9]{2}-[0-9]{2}T.+$") && timestamp(self) == timestamp(self)`,message="expiresAt must be an RFC 3339 time such as 2030-01-31T12:00:00Z"
	ExpiresAt string `json:"expiresAt,omitempty"`

	// Asks for a Kafka user.
	// +optional
	Kafka *Kafka `json:"kafka,omitempty"`

	// Asks for an OpenSearch user.
	// +optional
	OpenSearch *OpenSearch `json:"openSearch,omitempty"`

	// Asks for Valkey users, one for each instance. Two instances whose names differ only
	// in punctuation become the same variable and cannot share a Secret.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	// +kubebuilder:validation:XValidation:rule=`self.all(a, self.exists_one(b, b.instance == a.instance))`,message="each instance may be listed only once",messageExpression=`"instances %s are listed more than once".format([self.map(a, !self.exists_one(b, b.instance == a.instance), a.instance)])`
	Valkey []Valkey `json:"valkey,omitempty"`

	// Replaces the users regularly. Without it they stay.
	// +optional
	Rotation *v1.Rotation `json:"rotation,omitempty"`
}

// Kafka asks for a user on the Kafka service of a pool.
type Kafka struct {
	// The Aiven project that holds the Kafka service, for example dev.
	// The operator's configuration lists the allowed ones.
	// +required
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`self != ""`,message="pool must name the Aiven project that holds the Kafka service"
	Pool string `json:"pool"`

	// The Secret to write to, in the application's namespace.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches("^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")`,message="secretName must be a valid Secret name: lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit"
	SecretName string `json:"secretName"`

	// The topics that the user may use. Left out, topic rights are managed elsewhere and
	// left alone. An empty list takes away every right given by this list before.
	// +optional
	// +kubebuilder:validation:MaxItems=256
	// +listType=map
	// +listMapKey=topic
	ACL []v1.KafkaACL `json:"acl,omitzero"`
}

// OpenSearch asks for a user on an OpenSearch instance.
type OpenSearch struct {
	// The instance as the team named it, or the whole name of its Aiven service.
	// It must exist in the application's namespace.
	// +required
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`self.matches("^[-._a-z0-9]+$")`,message="instance must be the name of an instance: lower-case letters, digits, '-', '.' and '_'"
	Instance string `json:"instance"`

	// What the user may do with all indexes: read (the default), write, readwrite or admin.
	// +optional
	Access v1.Access `json:"access,omitempty"`

	// The Secret to write to, in the application's namespace.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches("^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")`,message="secretName must be a valid Secret name: lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit"
	SecretName string `json:"secretName"`
}

// Valkey asks for a user on a Valkey instance.
type Valkey struct {
	// The instance as the team named it. It must exist in the application's namespace.
	// +required
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`self.matches("^[-._a-z0-9]+$")`,message="instance must be the name of an instance: lower-case letters, digits, '-', '.' and '_'"
	Instance string `json:"instance"`

	// What the user may do with all keys: read (the default), write, readwrite or admin.
	// +optional
	Access v1.Access `json:"access,omitempty"`

	// The Secret to write to, in the application's namespace.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches("^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")`,message="secretName must be a valid Secret name: lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit"
	SecretName string `json:"secretName"`
}
