package key

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"regexp"
	"strconv"
	"strings"
)

// MaxUsername is how many characters Aiven allows in a user's name.
const MaxUsername = 64

const (
	maxTeam = 20
	maxApp  = 30

	kafkaSuffix = 3
	suffix      = 8
)

// Identity is everything that a user's name is derived from. Two different identities have different names, but for
// the chance of a collision in the suffix, which is why names are claimed and not merely computed.
type Identity struct {
	Cluster     string // tells clusters apart that share an Aiven project
	Namespace   string
	Application string
	Project     string
	Service     string // Aiven's name of the service
	Attempt     int32  // counts the names that were taken or given up
}

// suffix is n characters of a-z and 0-9 derived from the whole identity.
func (i Identity) suffix(n int) string {
	h := sha256.New()
	for _, part := range []string{i.Cluster, i.Namespace, i.Application, i.Project, i.Service, strconv.Itoa(int(i.Attempt))} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	v := binary.BigEndian.Uint64(h.Sum(nil))
	const alphabet = "abcdefghijklmnopqrstuvwxyz0123456789"
	out := make([]byte, n)
	for j := range out {
		out[j] = alphabet[v%uint64(len(alphabet))]
		v /= uint64(len(alphabet))
	}
	return string(out)
}

// Kafka is the name of a Kafka user: "<team>_<app>_<hash>_<suffix>", at most 64 characters. Tools that make ACLs match
// all but the suffix, so this form is fixed.
func (i Identity) Kafka() string {
	return kafkaBase(i.Namespace, i.Application) + i.suffix(kafkaSuffix)
}

// OpenSearch is the name of an OpenSearch user: "<namespace><level>-<suffix>".
func (i Identity) OpenSearch(access string) string {
	return levelled(i.Namespace, access) + "-" + i.suffix(suffix)
}

// Valkey is the name of a Valkey user: "<application><level>-<suffix>".
func (i Identity) Valkey(access string) string {
	return levelled(i.Application, access) + "-" + i.suffix(suffix)
}

// levelled appends the access level to a base. Where the user's name would overrun MaxUsername, the base is cut and gets
// "-" and 8 hex digits of its SHA-256, so that long names with a common beginning stay apart.
func levelled(base, access string) string {
	level := map[string]string{"admin": "", "write": "-w", "readwrite": "-rw"}
	l, ok := level[access]
	if !ok {
		l = "-r"
	}
	limit := MaxUsername - len(l) - 1 - suffix
	if len(base) > limit {
		base = shortened(base, limit)
	}
	return base + l
}

func shortened(base string, limit int) string {
	sum := sha256.Sum256([]byte(base))
	return fmt.Sprintf("%s-%x", base[:limit-9], sum[:4])
}

// kafkaBase is the part of a Kafka user's name that the namespace and the application determine.
func kafkaBase(namespace, application string) string {
	team := trimmed(namespace, "team", maxTeam)
	app := trimmed(application, namespace, maxApp)
	return fmt.Sprintf("%s_%s_%08x_", team, app, crc32.ChecksumIEEE([]byte(namespace+application)))
}

// trimmed is a name less a prefix (unless that is all of it), cut to a length, and less leading and trailing "-", those included that
// the cut laid bare.
func trimmed(name, prefix string, limit int) string {
	if name != prefix {
		name = strings.TrimPrefix(name, prefix)
	}
	name = strings.Trim(name, "-")
	return strings.TrimRight(name[:min(len(name), limit)], "-")
}

var (
	// The earlier operator took three characters of URL-safe base64.
	kafkaEnd = regexp.MustCompile(`^[-_A-Za-z0-9]{3}$`)
	otherEnd = regexp.MustCompile(`^(-w|-rw|-r)?-([-_A-Za-z0-9]{3}|[a-z0-9]{8})$`)
)

// IsKafkaUser tells whether a name can be that of a Kafka user of this application, made by keysmith or by the
// earlier operator at any generation.
func IsKafkaUser(name, namespace, application string) bool {
	end, ok := strings.CutPrefix(name, kafkaBase(namespace, application))
	return ok && kafkaEnd.MatchString(end)
}

// IsOpenSearchUser tells the same of an OpenSearch user, of any access level.
func IsOpenSearchUser(name, namespace string) bool { return isLevelled(name, namespace) }

// IsValkeyUser tells the same of a Valkey user, of any access level.
func IsValkeyUser(name, application string) bool { return isLevelled(name, application) }

func isLevelled(name, base string) bool {
	if len(name) > MaxUsername {
		return false
	}
	if end, ok := strings.CutPrefix(name, base); ok && otherEnd.MatchString(end) {
		return true
	}
	for _, access := range []string{"admin", "write", "readwrite", "read"} {
		end, ok := strings.CutPrefix(name, levelled(base, access)+"-")
		if ok && len(end) == suffix && otherEnd.MatchString("-"+end) {
			return true
		}
	}
	return false
}

// Attempts is how many attempts there are; after the last the first follows, whose user is long gone by then.
const Attempts = 1000

// Made tells whether an OpenSearch or Valkey user's name was derived from this identity by one of the attempts.
func (i Identity) Made(name string) bool {
	if n := len(name) - suffix - 1; n < 0 || name[n] != '-' {
		return false
	}
	for i.Attempt = range int32(Attempts) {
		if strings.HasSuffix(name, "-"+i.suffix(suffix)) {
			return true
		}
	}
	return false
}

// KafkaServices are the names that the Kafka service of a project may have, in the order in which they are tried.
func KafkaServices(project string) []string { return []string{"kafka", project + "-kafka"} }

// IsServiceOf tells whether a service has a name of a namespace, as InstanceServices makes it.
func IsServiceOf(service, kind, namespace string) bool {
	return strings.HasPrefix(service, kind+"-"+namespace+"-")
}

// InstanceServices are the names that the service of an OpenSearch or Valkey instance may have, in the order in which they
// are tried: "<kind>-<namespace>-<instance>", and the instance itself where manifests name the whole service.
func InstanceServices(kind, namespace, instance string) []string {
	return []string{kind + "-" + namespace + "-" + instance, instance}
}
