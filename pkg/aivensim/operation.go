package aivensim

import "net/http"

// Operation names an operation of the API. The names are the operation ids of Aiven's OpenAPI document.
type Operation string

// The operations that are emulated. A request that is none of them has the empty Operation and is answered 404.
const (
	ProjectList                  Operation = "ProjectList"
	ProjectGet                   Operation = "ProjectGet"
	ProjectKmsGetCA              Operation = "ProjectKmsGetCA"
	ServiceList                  Operation = "ServiceList"
	ServiceGet                   Operation = "ServiceGet"
	ServiceUserCreate            Operation = "ServiceUserCreate"
	ServiceUserGet               Operation = "ServiceUserGet"
	ServiceUserCredentialsModify Operation = "ServiceUserCredentialsModify"
	ServiceUserCredentialsReset  Operation = "ServiceUserCredentialsReset"
	ServiceUserDelete            Operation = "ServiceUserDelete"
	ServiceKafkaACLList          Operation = "ServiceKafkaAclList"
	ServiceKafkaACLAdd           Operation = "ServiceKafkaAclAdd"
	ServiceKafkaACLDelete        Operation = "ServiceKafkaAclDelete"
	ServiceKafkaNativeACLList    Operation = "ServiceKafkaNativeAclList"
	ServiceKafkaNativeACLAdd     Operation = "ServiceKafkaNativeAclAdd"
	ServiceKafkaNativeACLGet     Operation = "ServiceKafkaNativeAclGet"
	ServiceKafkaNativeACLDelete  Operation = "ServiceKafkaNativeAclDelete"
	ServiceOpenSearchACLGet      Operation = "ServiceOpenSearchAclGet"
	ServiceOpenSearchACLSet      Operation = "ServiceOpenSearchAclSet"
	ServiceOpenSearchACLUpdate   Operation = "ServiceOpenSearchAclUpdate"
)

// route says where an operation is found and what it needs before its handler runs.
type route struct {
	method, path string
	operation    Operation
	// only is the type of service that has the operation; empty: every type.
	only ServiceType
	// data says that the service itself does the work: it must be powered on.
	data   bool
	handle func(*call) (parts, error)
}

// routes is the table of the emulated endpoints.
var routes = []route{
	{http.MethodGet, "/v1/project", ProjectList, "", false, (*call).listProjects},
	{http.MethodGet, "/v1/project/{project}", ProjectGet, "", false, (*call).getProject},
	{http.MethodGet, "/v1/project/{project}/kms/ca", ProjectKmsGetCA, "", false, (*call).getCA},
	{http.MethodGet, "/v1/project/{project}/service", ServiceList, "", false, (*call).listServices},
	{http.MethodGet, "/v1/project/{project}/service/{service}", ServiceGet, "", false, (*call).getService},
	{http.MethodPost, "/v1/project/{project}/service/{service}/user", ServiceUserCreate, "", true, (*call).createUser},
	{http.MethodGet, "/v1/project/{project}/service/{service}/user/{user}", ServiceUserGet, "", true, (*call).getUser},
	{http.MethodPut, "/v1/project/{project}/service/{service}/user/{user}", ServiceUserCredentialsModify, "", true, (*call).modifyUser},
	{http.MethodPut, "/v1/project/{project}/service/{service}/user/{user}/credentials/reset", ServiceUserCredentialsReset, "", true, (*call).resetUser},
	{http.MethodDelete, "/v1/project/{project}/service/{service}/user/{user}", ServiceUserDelete, "", true, (*call).deleteUser},
	{http.MethodGet, "/v1/project/{project}/service/{service}/acl", ServiceKafkaACLList, Kafka, true, (*call).listKafkaACLs},
	{http.MethodPost, "/v1/project/{project}/service/{service}/acl", ServiceKafkaACLAdd, Kafka, true, (*call).addKafkaACL},
	{http.MethodDelete, "/v1/project/{project}/service/{service}/acl/{acl}", ServiceKafkaACLDelete, Kafka, true, (*call).deleteKafkaACL},
	{http.MethodGet, "/v1/project/{project}/service/{service}/kafka/acl", ServiceKafkaNativeACLList, Kafka, true, (*call).listNativeACLs},
	{http.MethodPost, "/v1/project/{project}/service/{service}/kafka/acl", ServiceKafkaNativeACLAdd, Kafka, true, (*call).addNativeACL},
	{http.MethodGet, "/v1/project/{project}/service/{service}/kafka/acl/{acl}", ServiceKafkaNativeACLGet, Kafka, true, (*call).getNativeACL},
	{http.MethodDelete, "/v1/project/{project}/service/{service}/kafka/acl/{acl}", ServiceKafkaNativeACLDelete, Kafka, true, (*call).deleteNativeACL},
	{http.MethodGet, "/v1/project/{project}/service/{service}/opensearch/acl", ServiceOpenSearchACLGet, OpenSearch, true, (*call).getOpenSearchACLs},
	{http.MethodPost, "/v1/project/{project}/service/{service}/opensearch/acl", ServiceOpenSearchACLSet, OpenSearch, true, (*call).setOpenSearchACLs},
	{http.MethodPut, "/v1/project/{project}/service/{service}/opensearch/acl", ServiceOpenSearchACLUpdate, OpenSearch, true, (*call).updateOpenSearchACLs},
}
