package key

import (
	"regexp"
	"strings"
)

// kafkaAttempts is how many attempts MadeKafka tries. Another cluster with the same namespace and application makes one of these names by chance for one
// user in 46656/8 = 5832, so that they are few; second attempts are rare.
const kafkaAttempts = 8

// MadeKafka tells whether a Kafka user's name was derived from this identity by one of the first attempts. Its suffix has three characters only: where another
// cluster has the same namespace and application, one of its users in 5832 looks so too.
func (i Identity) MadeKafka(name string) bool {
	for i.Attempt = range int32(kafkaAttempts) {
		if i.Kafka() == name {
			return true
		}
	}
	return false
}

var kafkaForm = regexp.MustCompile(`^([-.a-z0-9]+)_([-.a-z0-9]+)_[0-9a-f]{8}_[-_A-Za-z0-9]{3}$`)

// LooksKafka tells whether a name has the form of a Kafka user of any application.
func LooksKafka(name string) bool { return kafkaForm.MatchString(name) }

// KafkaOrigins are the namespaces and applications that a Kafka user's name can have been made for, be they there or not: its parts lack only common
// prefixes, and its checksum proves the guess. There are none where a part was cut.
func KafkaOrigins(name string) []Identity {
	m := kafkaForm.FindStringSubmatch(name)
	if m == nil {
		return nil
	}
	var out []Identity
	for _, namespace := range []string{m[1], "team" + m[1], "team-" + m[1]} {
		for _, application := range []string{m[2], namespace + m[2], namespace + "-" + m[2]} {
			if IsKafkaUser(name, namespace, application) {
				out = append(out, Identity{Namespace: namespace, Application: application})
			}
		}
	}
	return out
}

// KafkaSuffix is how many characters of a Kafka user's name follow its stem.
const KafkaSuffix = kafkaSuffix

// KafkaStem is what the names of all Kafka users of an application begin with, and of hardly any other.
func KafkaStem(namespace, application string) string { return kafkaBase(namespace, application) }

var levelledForm = regexp.MustCompile(`^(.+?)(-w|-rw|-r)?-[a-z0-9]{8}$`)

// ValkeyOrigins are the applications that the name of a Valkey user of keysmith can have been made for, be they there or not: nothing in the name proves them.
// There are none where the name was cut.
func ValkeyOrigins(name string) []string {
	m := levelledForm.FindStringSubmatch(name)
	switch {
	case m == nil:
		return nil
	case m[2] == "":
		return []string{m[1]}
	default:
		return []string{m[1], m[1] + m[2]}
	}
}

// ServiceOwners are the namespaces that the service of an instance can belong to, by its name: "valkey-a-b-c" is one of a or of a-b.
func ServiceOwners(service, kind string) []string {
	rest, ok := strings.CutPrefix(service, kind+"-")
	if !ok {
		return nil
	}
	var out []string
	for i, r := range rest {
		if r == '-' && i > 0 && i < len(rest)-1 {
			out = append(out, rest[:i])
		}
	}
	return out
}
