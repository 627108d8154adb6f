package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AivenApplication asks for credentials on shared Aiven services. Each service that it
// names gets a service user of its own, whose credentials are written to a Secret in the
// same namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=aivenapplications,shortName=aivenapp
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:deprecatedversion:warning="deprecated, use v2"
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
	Status AivenApplicationStatus `json:"status,omitempty"`
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
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule=`!has(self.kafka) || self.?secretName.orValue("") != "" || self.kafka.?secretName.orValue("") != "" || (oldSelf.hasValue() && has(oldSelf.value().kafka) && oldSelf.value().kafka == self.kafka && oldSelf.value().?secretName.orValue("") == "")`,fieldPath=".kafka.secretName",reason=FieldValueRequired,message="secretName must name the Secret to write to"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule=`!has(self.openSearch) || self.?secretName.orValue("") != "" || self.openSearch.?secretName.orValue("") != "" || (oldSelf.hasValue() && has(oldSelf.value().openSearch) && oldSelf.value().openSearch == self.openSearch && oldSelf.value().?secretName.orValue("") == "")`,fieldPath=".openSearch.secretName",reason=FieldValueRequired,message="secretName must name the Secret to write to"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule=`!has(self.valkey) || self.?secretName.orValue("") != "" || self.valkey.all(v, v.?secretName.orValue("") != "" || (oldSelf.hasValue() && has(oldSelf.value().valkey) && oldSelf.value().valkey.exists(o, o == v) && oldSelf.value().?secretName.orValue("") == ""))`,fieldPath=".valkey",reason=FieldValueRequired,message="secretName must name the Secret to write to",messageExpression=`"secretName must name the Secret to write to, for instances %s".format([self.valkey.map(v, v.?secretName.orValue("") == "", v.instance)])`
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule=`!has(self.valkey) || (oldSelf.hasValue() && has(oldSelf.value().valkey) && oldSelf.value().valkey == self.valkey && (has(oldSelf.value().secretName) ? oldSelf.value().secretName : "") == (has(self.secretName) ? self.secretName : "")) || !self.valkey.exists(a, self.valkey.exists(b, a.instance != b.instance && (a.?secretName.orValue("") != "" ? a.secretName : (has(self.secretName) ? self.secretName : "")) == (b.?secretName.orValue("") != "" ? b.secretName : (has(self.secretName) ? self.secretName : "")) && a.instance.replace("-", "_").replace(".", "_") == b.instance.replace("-", "_").replace(".", "_")))`,fieldPath=".valkey",message="two instances whose names become the same variable must have different Secrets",messageExpression=`"instances %s become the same variable and must have different Secrets".format([self.valkey.map(a, self.valkey.exists(b, a.instance != b.instance && (a.?secretName.orValue("") != "" ? a.secretName : (has(self.secretName) ? self.secretName : "")) == (b.?secretName.orValue("") != "" ? b.secretName : (has(self.secretName) ? self.secretName : "")) && a.instance.replace("-", "_").replace(".", "_") == b.instance.replace("-", "_").replace(".", "_")), a.instance)])`
type AivenApplicationSpec struct {
	// The Secret of every service below that names none. Empty means not given.
	// Legacy: better give each service a secretName of its own.
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
	Rotation *Rotation `json:"rotation,omitempty"`
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
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self == "" || self.matches("^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")`,message="secretName must be a valid Secret name: lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit"
	SecretName string `json:"secretName,omitempty"`

	// The topics that the user may use. Left out, topic rights are managed elsewhere and
	// left alone. An empty list takes away every right given by this list before.
	// +optional
	// +kubebuilder:validation:MaxItems=256
	// +listType=map
	// +listMapKey=topic
	ACL []KafkaACL `json:"acl,omitzero"`
}

// KafkaACL is the right to use a topic.
type KafkaACL struct {
	// The name of a topic, or a pattern in which * stands for any characters and ? for one.
	// +required
	// +kubebuilder:validation:MaxLength=249
	// +kubebuilder:validation:XValidation:rule=`self.matches("^[-._*?A-Za-z0-9]+$")`,message="topic must be a topic name or a pattern: letters, digits, '-', '.', '_', '*' and '?'"
	Topic string `json:"topic"`

	// What the user may do with the topic: read (the default), write, readwrite or admin.
	// +optional
	Access Access `json:"access,omitempty"`
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
	Access Access `json:"access,omitempty"`

	// The Secret to write to, in the application's namespace.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self == "" || self.matches("^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")`,message="secretName must be a valid Secret name: lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit"
	SecretName string `json:"secretName,omitempty"`
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
	Access Access `json:"access,omitempty"`

	// The Secret to write to, in the application's namespace.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self == "" || self.matches("^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")`,message="secretName must be a valid Secret name: lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit"
	SecretName string `json:"secretName,omitempty"`
}

// Access is a level of rights on a service. Empty means read; the schema sets no default,
// so that the stored object stays as it was written. Compare levels through OrDefault.
//
// +kubebuilder:validation:Enum="";read;write;readwrite;admin
type Access string

// The levels of access.
const (
	AccessRead      Access = "read"
	AccessWrite     Access = "write"
	AccessReadWrite Access = "readwrite"
	AccessAdmin     Access = "admin"
)

// Rotation says how often users are replaced. Periods reads it.
//
// +kubebuilder:validation:XValidation:rule=`!has(self.overlap) || !self.overlap.matches("^([0-9]+([.][0-9]+)?(h|m|s))+$") || !self.interval.matches("^([0-9]+([.][0-9]+)?(h|m|s))+$") || duration(self.overlap) < duration(self.interval)`,message="overlap must be shorter than interval",fieldPath=".overlap"
type Rotation struct {
	// Each user is replaced by a new one after this time, for example 720h. At least 1m.
	// +required
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule=`self.matches("^([0-9]+([.][0-9]+)?(h|m|s))+$") && duration(self) >= duration("1m")`,message="interval must be a duration of at least 1m, in h, m and s, such as 720h"
	Interval string `json:"interval"`

	// The replaced user goes on working for this time, for example 24h, within which
	// workloads must have been restarted. Shorter than interval, at least 1m;
	// half of interval by default.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule=`self.matches("^([0-9]+([.][0-9]+)?(h|m|s))+$") && duration(self) >= duration("1m")`,message="overlap must be a duration of at least 1m, in h, m and s, such as 24h"
	Overlap string `json:"overlap,omitempty"`
}

// AivenApplicationStatus is what has become of an application.
type AivenApplicationStatus struct {
	// RolloutComplete or RolloutFailed. Wait for the condition Ready instead.
	// +optional
	SynchronizationState string `json:"synchronizationState,omitempty"`

	// When this status last changed.
	// +optional
	// +nullable
	// +kubebuilder:validation:XValidation:rule=`string(self) != ""`,message="must be an RFC 3339 time such as 2030-01-31T12:00:00Z"
	SynchronizationTime *metav1.Time `json:"synchronizationTime,omitempty"`

	// The hash of the spec that was synchronised last. Empty it to force a full
	// synchronisation, which checks everything and replaces nothing.
	// +optional
	SynchronizationHash string `json:"synchronizationHash,omitempty"`

	// The generation that was synchronised last.
	// +optional
	SynchronizedGeneration int64 `json:"synchronizedGeneration,omitempty"`

	// The generation that this status speaks about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// The state in detail: Ready is the one to wait for; Paused, Succeeded, AivenFailure
	// and LocalFailure tell more.
	// +optional
	// +listType=atomic
	Conditions []Condition `json:"conditions,omitempty"`

	// The users made for this application, one for each service.
	// +optional
	// +listType=atomic
	Bindings []Binding `json:"bindings,omitempty"`
}

// The values of AivenApplicationStatus.SynchronizationState.
const (
	RolloutComplete = "RolloutComplete"
	RolloutFailed   = "RolloutFailed"
)

// Condition is one aspect of an application's state.
type Condition struct {
	// What the condition is about.
	// +required
	Type ConditionType `json:"type"`

	// True, False or Unknown.
	// +required
	Status corev1.ConditionStatus `json:"status"`

	// Why, in one CamelCase word.
	// +optional
	Reason string `json:"reason,omitempty"`

	// Why, for people.
	// +optional
	Message string `json:"message,omitempty"`

	// When the condition last changed.
	// +optional
	// +nullable
	// +kubebuilder:validation:XValidation:rule=`string(self) != ""`,message="must be an RFC 3339 time such as 2030-01-31T12:00:00Z"
	LastUpdateTime metav1.Time `json:"lastUpdateTime,omitzero"`
}

// ConditionType is what a Condition is about.
type ConditionType string

// The conditions that the operator sets.
const (
	// ConditionReady is the one to wait for: every Secret holds working credentials.
	ConditionReady ConditionType = "Ready"
	// ConditionPaused tells that an annotation stops all work on the application.
	ConditionPaused ConditionType = "Paused"
	// ConditionSucceeded is true after a synchronisation without failure.
	ConditionSucceeded ConditionType = "Succeeded"
	// ConditionAivenFailure is true while Aiven fails or refuses.
	ConditionAivenFailure ConditionType = "AivenFailure"
	// ConditionLocalFailure is true while the failure lies in the cluster or in the spec.
	ConditionLocalFailure ConditionType = "LocalFailure"
)

// Binding is the record of one user on one service. It is written before the user is made
// and removed after the user is gone.
type Binding struct {
	// kafka, opensearch or valkey.
	// +optional
	Kind string `json:"kind,omitempty"`

	// The instance as the spec names it; none for Kafka.
	// +optional
	Instance string `json:"instance,omitempty"`

	// The Aiven project of the service.
	// +optional
	Project string `json:"project,omitempty"`

	// The name of the Aiven service.
	// +optional
	Service string `json:"service,omitempty"`

	// The Secret that holds the user's credentials.
	// +optional
	SecretName string `json:"secretName,omitempty"`

	// The name of the user at Aiven.
	// +optional
	Username string `json:"username,omitempty"`

	// How far the user has come.
	// +optional
	State string `json:"state,omitempty"`

	// Why, in one CamelCase word.
	// +optional
	Reason string `json:"reason,omitempty"`

	// Why, for people.
	// +optional
	Message string `json:"message,omitempty"`

	// The counter that the user name was derived from.
	// +optional
	Attempt int32 `json:"attempt,omitempty"`

	// When the user is replaced next.
	// +optional
	// +nullable
	// +kubebuilder:validation:XValidation:rule=`string(self) != ""`,message="must be an RFC 3339 time such as 2030-01-31T12:00:00Z"
	RotatesAt *metav1.Time `json:"rotatesAt,omitempty"`

	// When the Secret got this user; only where users are rotated. The next rotation is an interval later.
	// +optional
	// +nullable
	// +kubebuilder:validation:XValidation:rule=`string(self) != ""`,message="must be an RFC 3339 time such as 2030-01-31T12:00:00Z"
	IssuedAt *metav1.Time `json:"issuedAt,omitempty"`

	// When a user that was replaced is deleted.
	// +optional
	// +nullable
	// +kubebuilder:validation:XValidation:rule=`string(self) != ""`,message="must be an RFC 3339 time such as 2030-01-31T12:00:00Z"
	RetiresAt *metav1.Time `json:"retiresAt,omitempty"`

	// The last rotation on demand that this user answers: the value, or the beginning of the hash of a long value, of the
	// annotation keysmith.io/rotate.
	// +optional
	RotationRequest string `json:"rotationRequest,omitempty"`
}
