package aivensim

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

// Types of users in answers.
const (
	builtIn = "primary"
	normal  = "normal"
)

// User is a service user, as somebody sees it who knows everything.
type User struct {
	Username string `json:"username"`
	// Type is "primary" for built-in users, else "normal".
	Type string `json:"type"`
	// Password is the one that a client can log in with.
	Password string `json:"password,omitempty"`
	// AccessCert and AccessKey are PEM: one CERTIFICATE, and a PKCS#8 PRIVATE KEY. Users of Kafka services have them.
	AccessCert string `json:"accessCert,omitempty"`
	AccessKey  string `json:"accessKey,omitempty"`
	// NotAfter is the end of the certificate.
	NotAfter time.Time `json:"notAfter,omitzero"`
	// ExpiringNotAfter is the end of the former certificate during a renewal, else zero.
	ExpiringNotAfter time.Time     `json:"expiringNotAfter,omitzero"`
	AccessControl    AccessControl `json:"accessControl,omitzero"`
	// Generation counts credentials: 1 after the creation, one more with each password, certificate or key.
	Generation int `json:"generation"`
}

// AccessControl is the rights of a Valkey user. As in the API, a list without values counts as not given, and is left
// out of answers.
type AccessControl struct {
	Categories []string `json:"valkey_acl_categories,omitempty"` // in order: -@all, +@read
	Commands   []string `json:"valkey_acl_commands,omitempty"`   // in order: +get, +cluster|slots
	Keys       []string `json:"valkey_acl_keys,omitempty"`       // globs
	Channels   []string `json:"valkey_acl_channels,omitempty"`   // globs
	Databases  []string `json:"valkey_acl_databases,omitempty"`  // numbers, or alldbs, or resetdbs
}

// IsZero tells whether no list has a value.
func (a AccessControl) IsZero() bool {
	return len(a.Categories)+len(a.Commands)+len(a.Keys)+len(a.Channels)+len(a.Databases) == 0
}

func (a AccessControl) clone() AccessControl {
	return AccessControl{
		Categories: slices.Clone(a.Categories),
		Commands:   slices.Clone(a.Commands),
		Keys:       slices.Clone(a.Keys),
		Channels:   slices.Clone(a.Channels),
		Databases:  slices.Clone(a.Databases),
	}
}

// user is one version of a user. It is never changed, save for the caches: a change puts another in its place.
type user struct {
	userData
	plain  atomic.Pointer[[]byte]     // cache of body
	hidden atomic.Pointer[hiddenBody] // likewise
}

// hiddenBody is a user as JSON without secrets.
type hiddenBody struct {
	redaction Redaction
	json      []byte
}

type userData struct {
	username, kind  string
	password        string
	passwordTime    time.Time
	passwordNull    bool         // changed inside the database: not known to the API
	certificate     *certificate // nil: the type of service has none
	expiring        time.Time
	former          *certificate // until expiring
	accessControl   AccessControl
	accessBefore    history[AccessControl]
	generation      int
	visibleFrom     time.Time // to user get
	inServiceFrom   time.Time // to service get
	credentialsFrom time.Time // empty before
}

func (u *user) export() User {
	out := User{
		Username: u.username, Type: u.kind, Password: u.password, ExpiringNotAfter: u.expiring,
		AccessControl: u.accessControl.clone(), Generation: u.generation,
	}
	if c := u.certificate; c != nil {
		out.AccessCert, out.AccessKey, out.NotAfter = c.cert, c.key.pem, c.notAfter
	}
	return out
}

// userBody is a user in an answer.
type userBody struct {
	Username            string        `json:"username"`
	Type                string        `json:"type"`
	Password            *string       `json:"password"`
	PasswordUpdatedTime time.Time     `json:"password_updated_time"`
	AccessCert          *string       `json:"access_cert,omitempty"`
	AccessKey           any           `json:"access_key,omitempty"` // *string, present even if null
	NotAfter            time.Time     `json:"access_cert_not_valid_after_time,omitzero"`
	ExpiringNotAfter    time.Time     `json:"expiring_cert_not_valid_after_time,omitzero"`
	AccessControl       AccessControl `json:"access_control,omitzero"`
}

// body returns the user as JSON. What it looks like without a lag is kept.
func (u *user) body(c *call) []byte {
	empty, access := c.misses(u.credentialsFrom), u.accessBefore.seen(c, u.accessControl)
	if empty || len(u.accessBefore) > 0 {
		return u.encode(c, access, empty)
	}
	if c.plain {
		if b := u.plain.Load(); b != nil {
			return *b
		}
		b := u.encode(c, access, false)
		u.plain.Store(&b)
		return b
	}
	if b := u.hidden.Load(); b != nil && b.redaction == c.settings.Redaction {
		return b.json
	}
	b := u.encode(c, access, false)
	u.hidden.Store(&hiddenBody{c.settings.Redaction, b})
	return b
}

// encode returns the user as JSON. Empty credentials are not redacted: there is nothing to hide.
func (u *user) encode(c *call, access AccessControl, empty bool) []byte {
	show := func(secret string) *string {
		switch {
		case empty || !c.plain && c.settings.Redaction == RedactedEmpty:
			return new(string)
		case !c.plain && secret != "" && c.settings.Redaction == RedactedNull:
			return nil
		}
		secret = hide(c.plain, secret)
		return &secret
	}
	b := userBody{
		Username:            u.username,
		Type:                u.kind,
		Password:            show(u.password),
		PasswordUpdatedTime: u.passwordTime,
		ExpiringNotAfter:    u.expiring,
		AccessControl:       access,
	}
	if u.passwordNull {
		b.Password = nil
	}
	if k := u.certificate; k != nil {
		cert := k.cert
		if empty {
			cert = ""
		}
		b.AccessCert, b.AccessKey, b.NotAfter = &cert, show(k.key.pem), k.notAfter
	}
	return encode(b)
}

// Users returns the users of the service, built-in ones included, in the order of creation.
func (s *Service) Users() []User {
	v := s.snapshot()
	out := make([]User, len(v.users))
	for i, u := range v.users {
		out[i] = u.export()
	}
	return out
}

// User returns a user of the service, false if there is none of that name.
func (s *Service) User(username string) (User, bool) {
	if u := s.snapshot().users.find(username); u != nil {
		return u.export(), true
	}
	return User{}, false
}

// AddUser adds a user behind the operator's back, or replaces one, without regard to limits and naming rules. Of the
// user given Username, Type, Password and AccessControl are used; an empty type is "normal", and an empty password and
// the certificate are made. It is visible to reads at once.
func (s *Service) AddUser(u User) User {
	if u.Type == "" {
		u.Type = normal
	}
	n := s.newUser(u.Username, u.Type, u.AccessControl)
	if u.Password != "" {
		n.password = u.Password
	}
	s.change(func(v *serviceState) {
		v.forget(u.Username)
		if i := v.users.index(u.Username); i >= 0 {
			v.users = v.users.with(i, n)
		} else {
			v.users = append(v.users, n)
		}
	})
	return n.export()
}

// DeleteUser removes a user behind the operator's back, and tells whether it was there. ACLs that name it stay.
func (s *Service) DeleteUser(username string) bool { return s.deleteUser(username, 0) }

// deleteUser removes a user, which reads still show during the lag.
func (s *Service) deleteUser(username string, lag time.Duration) bool {
	found := false
	now := s.project.sim.now()
	s.change(func(v *serviceState) {
		u := v.users.find(username)
		if found = u != nil; !found {
			return
		}
		v.users, _ = without(v.users, func(o *user) bool { return o == u })
		v.gone, _ = without(v.gone, func(g goneUser) bool { return !g.until.After(now) })
		if lag > 0 {
			v.gone = append(v.gone, goneUser{u, now.Add(lag)})
		}
	})
	return found
}

// forget lets reads no longer show a deleted user.
func (v *serviceState) forget(username string) {
	v.gone, _ = without(v.gone, func(g goneUser) bool { return g.username == username })
}

// SetPassword changes a password as somebody else does with the API. It tells whether the user exists.
func (s *Service) SetPassword(username, password string) bool {
	return s.update(username, func(u *user) { s.setPassword(u, password) })
}

// OverridePassword changes a password inside the database: the API then answers null. It tells whether the user exists.
func (s *Service) OverridePassword(username, password string) bool {
	return s.update(username, func(u *user) {
		s.setPassword(u, password)
		u.passwordNull = true
	})
}

// SetAccessControl changes the rights of a user. It tells whether the user exists.
func (s *Service) SetAccessControl(username string, a AccessControl) bool {
	return s.update(username, func(u *user) { u.accessControl = a.clone() })
}

// ShuffleAccessControl changes the order of the keys and channels of a user, which means nothing. It tells whether the user
// exists.
func (s *Service) ShuffleAccessControl(username string) bool {
	return s.update(username, func(u *user) {
		u.accessControl = u.accessControl.clone()
		for _, list := range [][]string{u.accessControl.Keys, u.accessControl.Channels} {
			s.rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		}
	})
}

// SetCertificateEnd gives a user another certificate and key that end at that time, which may be past. It tells whether the
// user exists and has a certificate.
func (s *Service) SetCertificateEnd(username string, end time.Time) bool {
	u := s.snapshot().users.find(username)
	if u == nil || u.certificate == nil {
		return false
	}
	next := s.issue(username, u.certificate, end)
	return s.update(username, func(u *user) {
		u.certificate, u.former, u.expiring = next, nil, time.Time{}
		u.generation++
	})
}

// RenewCertificate gives a user a new certificate and key, as Aiven does by itself about three months before the old
// ones end. The old ones stay valid to their end, which answers show until the renewal is acknowledged. It tells
// whether the user exists and has a certificate.
func (s *Service) RenewCertificate(username string) bool {
	u := s.snapshot().users.find(username)
	if u == nil || u.certificate == nil {
		return false
	}
	next := s.issue(username, u.certificate, time.Time{})
	return s.update(username, func(u *user) {
		u.former, u.expiring = u.certificate, u.certificate.notAfter
		u.certificate = next
		u.generation++
	})
}

// newUser makes a user with new credentials, visible at once.
func (s *Service) newUser(username, kind string, a AccessControl) *user {
	u := &user{userData: userData{username: username, kind: kind, accessControl: a.clone()}}
	if s.kind == Kafka {
		u.certificate = s.issue(username, nil, time.Time{}) // takes milliseconds: not under the lock
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setPassword(u, s.newPassword())
	return u
}

// newPassword returns a password in Aiven's form. The caller holds the lock.
func (s *Service) newPassword() string {
	const chars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
	b := make([]byte, 19)
	for i := range b {
		b[i] = chars[s.rng.IntN(len(chars))]
	}
	return "AVNS_" + string(b)
}

func (s *Service) setPassword(u *user, password string) {
	u.password, u.passwordNull = password, false
	u.passwordTime = s.project.sim.now().Truncate(time.Second)
	u.generation++
}

// update replaces a user by its next version and tells whether it exists. f runs with the lock held.
func (s *Service) update(username string, f func(*user)) bool {
	found := false
	s.change(func(v *serviceState) {
		if i := v.users.index(username); i >= 0 {
			next := &user{userData: v.users[i].userData}
			f(next)
			v.users = v.users.with(i, next)
			found = true
		}
	})
	return found
}

// userList is the users of a service. Changes make a copy, because others may be reading it.
type userList []*user

// index returns the position of a user, -1 if there is none.
func (l userList) index(username string) int {
	return slices.IndexFunc(l, func(u *user) bool { return u.username == username })
}

// find returns a user, nil if there is none.
func (l userList) find(username string) *user {
	if i := l.index(username); i >= 0 {
		return l[i]
	}
	return nil
}

// with returns the list with another user at a position.
func (l userList) with(i int, u *user) userList {
	l = slices.Clone(l)
	l[i] = u
	return l
}

// usernames is the rule for user names that Aiven's own tools enforce for Valkey; taken for all types here.
var usernames = regexp.MustCompile(`^[_A-Za-z0-9][-._A-Za-z0-9]{0,63}$`)

// reserved are names that OpenSearch keeps for itself without listing them.
var reserved = []string{"metrics_user_datadog", "osd_internal_user", "replication_user", "os-sec-admin"}

func (s *Service) isReserved(username string) bool {
	return s.kind == OpenSearch && slices.Contains(reserved, username)
}

// maxRules is the number of values in a list of access control.
const maxRules = 256

// accessControlIn is access control in a request: the current names, and those from before Valkey.
type accessControlIn struct {
	AccessControl
	RedisCategories []string `json:"redis_acl_categories"`
	RedisCommands   []string `json:"redis_acl_commands"`
	RedisKeys       []string `json:"redis_acl_keys"`
	RedisChannels   []string `json:"redis_acl_channels"`
}

// check returns the access control asked for. An old name counts where the current one is not given.
func (a *accessControlIn) check() (AccessControl, error) {
	if a == nil {
		return AccessControl{}, nil
	}
	out := a.AccessControl
	for _, l := range []struct {
		name   string
		list   *[]string
		legacy []string
	}{
		{"valkey_acl_categories", &out.Categories, a.RedisCategories},
		{"valkey_acl_commands", &out.Commands, a.RedisCommands},
		{"valkey_acl_keys", &out.Keys, a.RedisKeys},
		{"valkey_acl_channels", &out.Channels, a.RedisChannels},
		{"valkey_acl_databases", &out.Databases, nil},
	} {
		if *l.list == nil {
			*l.list = l.legacy
		}
		if len(*l.list) > maxRules {
			return AccessControl{}, invalid("%s has more than %d items", l.name, maxRules)
		}
	}
	return out, nil
}

func (c *call) createUser() (parts, error) {
	var in struct {
		Username      string           `json:"username"`
		AccessControl *accessControlIn `json:"access_control"`
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	if !usernames.MatchString(in.Username) {
		return nil, invalid("'%s' does not match '%s': username", in.Username, usernames)
	}
	rights, err := in.AccessControl.check()
	if err != nil {
		return nil, err
	}
	s := c.service
	if err := c.room(s.snapshot(), in.Username); err != nil {
		return nil, err // before the work of making credentials
	}
	u := s.newUser(in.Username, normal, rights)
	lag := c.settings.Lag
	u.visibleFrom = c.now.Add(lag.UserGet)
	u.inServiceFrom = c.now.Add(lag.ServiceGet)
	u.credentialsFrom = c.now.Add(lag.Credentials)
	s.change(func(v *serviceState) {
		if err = c.room(*v, in.Username); err == nil {
			v.users = append(v.users, u)
			v.forget(in.Username)
		}
	})
	if err != nil {
		return nil, err
	}
	c.tally(func(n *Counters) { n.UsersCreated++ })
	return wrap(`{"message":"created","user":`, parts{u.body(c)}), nil
}

// room tells why a user cannot be created, nil if it can.
func (c *call) room(v serviceState, username string) error {
	s := c.service
	if v.users.find(username) != nil || s.isReserved(username) {
		c.tally(func(n *Counters) { n.DuplicateCreates++ })
		return fail(http.StatusConflict, "", fmt.Sprintf("User '%s' already exists", username))
	}
	count := 0
	for _, u := range v.users {
		if u.kind == normal {
			count++
		}
	}
	if limit := s.userLimit(v); limit >= 0 && count >= limit {
		return fail(http.StatusBadRequest, "", "Maximum number of service users reached")
	}
	return nil
}

func (c *call) getUser() (parts, error) {
	v := c.service.snapshot()
	u := v.users.find(c.Username)
	for _, g := range v.gone {
		if u == nil && g.username == c.Username && c.misses(g.until) {
			u = g.user
		}
	}
	if u == nil || c.misses(u.visibleFrom) {
		return nil, c.noUser()
	}
	return wrap(`{"user":`, parts{u.body(c)}), nil
}

func (c *call) noUser() error {
	return fail(http.StatusNotFound, "", fmt.Sprintf("User '%s' does not exist", c.Username))
}

// changeable returns the user of the request. Built-in ones are 403: what Aiven answers is not known, but that it
// refuses is.
func (c *call) changeable(verb string) (*user, error) {
	u := c.service.snapshot().users.find(c.Username)
	switch {
	case u != nil && u.kind == builtIn, c.service.isReserved(c.Username):
		if c.Operation == ServiceUserDelete {
			c.tally(func(n *Counters) { n.BuiltInDeletes++ })
		}
		return nil, fail(http.StatusForbidden, "", "User '"+c.Username+"' is built in: cannot "+verb)
	case u == nil:
		return nil, c.noUser()
	}
	return u, nil
}

// The length of a chosen password, in characters.
const (
	minPassword = 8
	maxPassword = 256
)

func (c *call) modifyUser() (parts, error) {
	var in struct {
		Operation     string           `json:"operation"`
		NewPassword   *string          `json:"new_password"`
		AccessControl *accessControlIn `json:"access_control"`
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	switch in.Operation {
	case "reset-credentials":
		return c.resetCredentials(in.NewPassword)
	case "set-access-control":
		rights, err := in.AccessControl.check()
		if err != nil {
			return nil, err
		}
		return c.updateUser(func(u *user) {
			u.accessBefore = u.accessBefore.with(c.now, c.settings.Lag.AccessControl, u.accessControl)
			u.accessControl = rights
		})
	case "acknowledge-renewal":
		return c.updateUser(func(u *user) { u.expiring = time.Time{} })
	}
	return nil, invalid("'%s' is not one of ['acknowledge-renewal', 'reset-credentials', 'set-access-control']: operation", in.Operation)
}

func (c *call) resetUser() (parts, error) { return c.resetCredentials(nil) }

// resetCredentials gives a user the password, or without one a generated password and, on Kafka, another certificate
// and key: whether the latter is so is not documented.
func (c *call) resetCredentials(password *string) (parts, error) {
	if password != nil {
		// Such texts repeat the value that they complain about; so does this one.
		switch n := utf8.RuneCountInString(*password); {
		case n < minPassword:
			return nil, invalid("'%s' is too short: new_password", *password)
		case n > maxPassword:
			return nil, invalid("'%s' is too long: new_password", *password)
		}
	}
	s := c.service
	u, err := c.changeable("reset")
	if err != nil {
		return nil, err
	}
	cert := u.certificate
	if password == nil && cert != nil {
		cert = s.issue(c.Username, cert, time.Time{})
	}
	credentialsFrom := c.now.Add(c.settings.Lag.Credentials)
	return c.updateUser(func(u *user) {
		c.tally(func(n *Counters) { n.UsersReset++ })
		if password != nil {
			s.setPassword(u, *password)
		} else {
			s.setPassword(u, s.newPassword())
			u.certificate, u.former, u.expiring = cert, nil, time.Time{}
		}
		u.credentialsFrom = credentialsFrom
	})
}

// updateUser changes the user of the request and answers the whole service, as every modification does.
func (c *call) updateUser(f func(*user)) (parts, error) {
	if _, err := c.changeable("modify"); err != nil {
		return nil, err
	}
	if !c.service.update(c.Username, f) {
		return nil, c.noUser()
	}
	return wrap(`{"message":"updated","service":`, c.service.body(c)), nil
}

func (c *call) deleteUser() (parts, error) {
	if _, err := c.changeable("delete"); err != nil {
		return nil, err
	}
	if !c.service.deleteUser(c.Username, c.settings.Lag.Deleted) {
		return nil, c.noUser()
	}
	c.tally(func(n *Counters) { n.UsersDeleted++ })
	return reply(map[string]string{"message": "deleted"})
}
