// Package aivensim emulates the part of the Aiven REST API that manages service users and their rights: projects with
// their CA, services of type kafka, opensearch, pg and valkey, service users with real X.509 certificates, Kafka ACLs and the
// OpenSearch ACL document. It is an http.Handler for tests and, in cmd/aivensim, a program.
//
// What a client sees follows Aiven's OpenAPI document and what Aiven's own clients expect. Where neither says anything,
// the comment on the code says which behaviour was chosen. The Go API plays everybody else: Aiven itself, people with
// other clients, and an observer who knows every password.
//
//	sim := aivensim.New(aivensim.Options{Token: "t"})
//	kafka := sim.AddProject("dev").AddService("kafka", aivensim.ServiceConfig{Type: aivensim.Kafka})
//	server := httptest.NewServer(sim)
//
// # Faults
//
// What can go wrong is said in four ways, each at the start (Options, ServiceConfig), at run time by the Go API, and at run
// time by the control interface, whose JSON has the shape of the Go types (Control lists its actions):
//
//   - A Rule treats some requests in another way: late, slowly, with another answer, without an answer, cut or damaged,
//     before or after they took effect, or with something else happening just before. Rules match by method, path,
//     operation, names and token, and apply with a probability, after some requests, to a number of them, for a while.
//   - Settings hold for all requests: latency, how far reads are behind, rate limit, redaction, limits.
//   - A ServiceConfig says what a service is and how it answers, from its components to a port that is a number.
//   - Methods change the state as somebody else does: SetState, SetComponents, AddService under the same name,
//     RemoveProject, RotateCA, RenewCertificate, SetCertificateEnd, SetPassword, SetAccessControl, SetOpenSearchACLs,
//     SetToken, RevokeToken, Advance and so on. An Action in a Rule does so between two requests of a client.
//
// A real server can stand behind a service: Follow tells it the users, and Sign gives it a certificate.
//
// Some known faults as rules:
//
//	{Method: "POST", Answer: Error(404, "", "Service {service} does not exist")}      a new service, not known everywhere
//	{Method: "POST", Answer: Error(404, "service_not_found", "Service not found")}    the same in other words
//	{Answer: Error(404, "", "User avnadmin with component main not found")}           a hiccup
//	{Token: TokenID(t), For: 5 * time.Second, Answer: Error(403, "permission_denied", "Permission denied")}
//	                                                                                  a permission on its way
//	{Answer: &Answer{Status: 502, Header: http.Header{"Content-Type": {"text/html"}}, Body: "<html>"}}
//	                                                                                  a proxy
//	{Answer: TooManyRequests(28*time.Second, RetryAfterDate)}                         a rate limit
//	{Operation: ServiceOpenSearchACLUpdate, Count: 1, Do: []Action{{Method: "POST",
//	  Path: "/acl?project=p&service=s", Body: json.RawMessage(`{"username":"other","rules":[]}`)}}}
//	                                                                                  a second writer between GET and PUT
//
// All that is random comes from Options.Seed: the same requests in the same order meet the same faults. Waits are in real
// time, so that a testing/synctest bubble can hold them; dates are by Options.Clock and Advance.
//
// What happened is in Counters and the Journal, and what is there now in Service.Gauges and Service.Users. No secret is in
// any of them but the last.
package aivensim
