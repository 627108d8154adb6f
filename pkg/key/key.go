// Package key holds every label, annotation, Secret key and naming rule of keysmith: all strings that other
// programs, dashboards and people rely on.
package key

import "strings"

// Labels of a managed Secret.
const (
	// LabelApp holds the application's name.
	LabelApp = "app"
	// LabelTeam holds the namespace.
	LabelTeam = "team"
	// LabelType marks a managed Secret; its value is TypeAivenator.
	LabelType = "type"
	// LabelGeneration holds the application's label of the same name if that is an integer, else "0".
	LabelGeneration = "aiven.nais.io/secret-generation"
	// Protected is both a label and an annotation: "true" keeps the Secret although it is unused.
	Protected = "aivenator.aiven.nais.io/protected"

	// TypeAivenator is the value of LabelType.
	TypeAivenator = "aivenator.aiven.nais.io"
)

// Annotations of a managed Secret.
const (
	// AnnotationCorrelationID is copied from the application.
	AnnotationCorrelationID = "nais.io/deploymentCorrelationID"
	// AnnotationTimeLimit is "true" where a protected Secret has a time limit.
	AnnotationTimeLimit = "aivenator.aiven.nais.io/with-time-limit"
	// AnnotationExpiresAt holds that limit, RFC 3339.
	AnnotationExpiresAt = "aivenator.aiven.nais.io/expires-at"

	// AnnotationOwner proves whose a Secret is: "<namespace>/<Secret name> <application name>". A copy under
	// another name or in another namespace carries an owner that does not fit it.
	AnnotationOwner = "keysmith.io/owner"
	// AnnotationStores says how the two Kafka stores were made, "<encoding> <kind of password> <digest>". The digest is of the stores
	// and of what they were built from, so that they are built again only when something changed.
	AnnotationStores = "keysmith.io/stores"

	// AnnotationRotation records, as JSON, since when the Secret has its users, and the users that they replaced. Only Secrets whose users
	// are rotated have it.
	AnnotationRotation = "keysmith.io/rotation"
	// AnnotationReloader lets Reloader restart the workloads that ask for it when a rotated Secret changes.
	AnnotationReloader = "reloader.stakater.com/match"

	// AnnotationKafkaUser and AnnotationKafkaPool record what is to be cleaned up on Kafka.
	AnnotationKafkaUser = "kafka.aiven.nais.io/serviceUser"
	AnnotationKafkaPool = "kafka.aiven.nais.io/pool"
	// AnnotationOpenSearchUser, AnnotationOpenSearchService and AnnotationOpenSearchProject do so for OpenSearch.
	AnnotationOpenSearchUser    = "opensearch.aiven.nais.io/serviceUser"
	AnnotationOpenSearchService = "opensearch.aiven.nais.io/serviceName"
	AnnotationOpenSearchProject = "opensearch.aiven.nais.io/project"
	// AnnotationValkeyProject is the project of all Valkey instances of a Secret.
	AnnotationValkeyProject = "valkey.aiven.nais.io/project"

	valkeyUserSuffix    = ".valkey.aiven.nais.io/serviceUser"
	valkeyServiceSuffix = ".valkey.aiven.nais.io/serviceName"
)

// Annotations of an application.
const (
	// AnnotationRotate asks for one rotation of all users of an application; each new value asks anew.
	AnnotationRotate = "keysmith.io/rotate"
)

// Finalizers.
const (
	// FinalizerAivenator is what the earlier operator put on its Secrets and applications.
	FinalizerAivenator = "aivenator.aiven.nais.io/finalizer"
)

// Data keys of a Secret.
const (
	SecretUpdated = "AIVEN_SECRET_UPDATED"
	AivenCA       = "AIVEN_CA"

	KafkaBrokers                = "KAFKA_BROKERS"
	KafkaSchemaRegistry         = "KAFKA_SCHEMA_REGISTRY"
	KafkaSchemaRegistryUser     = "KAFKA_SCHEMA_REGISTRY_USER"
	KafkaSchemaRegistryPassword = "KAFKA_SCHEMA_REGISTRY_PASSWORD"
	KafkaCertificate            = "KAFKA_CERTIFICATE"
	KafkaPrivateKey             = "KAFKA_PRIVATE_KEY"
	KafkaCA                     = "KAFKA_CA"
	KafkaCredStorePassword      = "KAFKA_CREDSTORE_PASSWORD"
	KafkaKeyStore               = "client.keystore.p12"
	KafkaTrustStore             = "client.truststore.jks"
	KafkaSecretUpdated          = "KAFKA_SECRET_UPDATED"

	OpenSearchUsername      = "OPEN_SEARCH_USERNAME"
	OpenSearchPassword      = "OPEN_SEARCH_PASSWORD"
	OpenSearchURI           = "OPEN_SEARCH_URI"
	OpenSearchHost          = "OPEN_SEARCH_HOST"
	OpenSearchPort          = "OPEN_SEARCH_PORT"
	OpenSearchDashboardURI  = "OPEN_SEARCH_DASHBOARD_URI"
	OpenSearchDashboardHost = "OPEN_SEARCH_DASHBOARD_HOST"
	OpenSearchDashboardPort = "OPEN_SEARCH_DASHBOARD_PORT"
)

// Field is one of the values that a Secret holds for each Valkey instance.
type Field string

// The fields of a Valkey instance; each stands before "_<INSTANCE>" in a data key.
const (
	Username    Field = "USERNAME"
	Password    Field = "PASSWORD"
	URI         Field = "URI"
	Host        Field = "HOST"
	Port        Field = "PORT"
	ReplicaURI  Field = "REPLICA_URI"
	ReplicaHost Field = "REPLICA_HOST"
	ReplicaPort Field = "REPLICA_PORT"
)

// Valkey is the data key of a field of an instance: "VALKEY_PASSWORD_MY_CACHE".
func Valkey(f Field, instance string) string {
	return "VALKEY_" + string(f) + "_" + Variable(instance)
}

// Redis is the same for clients that know only Redis; there are no replica fields.
func Redis(f Field, instance string) string {
	return "REDIS_" + string(f) + "_" + Variable(instance)
}

// Variable turns an instance's name into the end of a variable's name: capitals, and "_" for every character
// outside A-Z and 0-9.
func Variable(instance string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToUpper(instance))
}

// ValkeyUser is the annotation that records the user of a Valkey instance.
func ValkeyUser(instance string) string { return annotationName(instance) + valkeyUserSuffix }

// ValkeyService is the annotation that records the service of a Valkey instance.
func ValkeyService(instance string) string { return annotationName(instance) + valkeyServiceSuffix }

// ValkeyAnnotation is the inverse of ValkeyUser and ValkeyService: it takes the instance, in the form that annotations
// have, out of the name of an annotation. The instance is empty when the annotation is another one.
func ValkeyAnnotation(name string) (instance string, user bool) {
	if i, ok := strings.CutSuffix(name, valkeyUserSuffix); ok {
		return i, true
	}
	i, _ := strings.CutSuffix(name, valkeyServiceSuffix)
	if i == name {
		return "", false
	}
	return i, false
}

// annotationName replaces every character outside a-z and 0-9 by "-".
func annotationName(instance string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, instance)
}

// Owner is the value of AnnotationOwner.
func Owner(namespace, secret, application string) string {
	return namespace + "/" + secret + " " + application
}

// OwnedBy takes the application out of a Secret's owner annotation. It answers "" unless the annotation speaks
// of the Secret of this namespace and name.
func OwnedBy(owner, namespace, secret string) string {
	application, ok := strings.CutPrefix(owner, namespace+"/"+secret+" ")
	if !ok {
		return ""
	}
	return application
}

// LabelValue is a name as the value of a label, which holds at most 63 characters: longer names are shortened like
// those of users.
func LabelValue(name string) string {
	if len(name) > maxLabel {
		return shortened(name, maxLabel)
	}
	return name
}

const maxLabel = 63
