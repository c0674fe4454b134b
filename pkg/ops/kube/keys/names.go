package keys

// names is how a resource is stored and what the API calls it.
type names struct{ stored, api string }

// renamed lists the resources that are stored under another name than the API's.
// A name of two segments is one that needs both. OpenShift keeps what its OAuth
// server stores under "oauth".
func renamed() [10]names {
	return [...]names{
		{"minions", "nodes"},
		{"controllers", "replicationcontrollers"},
		{"ingress", "ingresses"},
		{"podsecuritypolicy", "podsecuritypolicies"},
		{"services/specs", "services"},
		{"services/endpoints", "endpoints"},
		{"oauth/clients", "oauthclients"},
		{"oauth/clientauthorizations", "oauthclientauthorizations"},
		{"oauth/accesstokens", "oauthaccesstokens"},
		{"oauth/authorizetokens", "oauthauthorizetokens"},
	}
}

// apiName returns the API's name of what is stored under one or two segments.
// It is empty for a name that the API uses and the store does not, and for a
// first segment that only exists with a second one.
func apiName(stored string) string {
	if stored == "services" || stored == "oauth" {
		return ""
	}
	for _, n := range renamed() {
		switch stored {
		case n.stored:
			return n.api
		case n.api:
			return ""
		}
	}
	return stored
}

// storedName returns what a resource is stored under.
func storedName(api string) string {
	for _, n := range renamed() {
		if n.api == api {
			return n.stored
		}
	}
	return api
}

// clusterScoped reports that objects of a resource are known to have no
// namespace. Of custom resources nothing is known, save the two kinds that the
// API server itself stores under their group.
func clusterScoped(resource, group string) bool {
	switch group {
	case "":
		return builtinClusterScoped(resource)
	case "apiextensions.k8s.io":
		return resource == "customresourcedefinitions"
	case "apiregistration.k8s.io":
		return resource == "apiservices"
	}
	return false
}

func builtinClusterScoped(resource string) bool {
	switch resource {
	case "namespaces", "nodes", "persistentvolumes", "componentstatuses",
		"clusterroles", "clusterrolebindings",
		"storageclasses", "volumeattachments", "csinodes", "csidrivers", "volumeattributesclasses",
		"priorityclasses", "runtimeclasses", "ingressclasses", "ipaddresses", "servicecidrs",
		"certificatesigningrequests", "clustertrustbundles", "podsecuritypolicies",
		"flowschemas", "prioritylevelconfigurations",
		"mutatingwebhookconfigurations", "validatingwebhookconfigurations",
		"validatingadmissionpolicies", "validatingadmissionpolicybindings",
		"mutatingadmissionpolicies", "mutatingadmissionpolicybindings",
		"storageversions", "storageversionmigrations", "deviceclasses", "resourceslices", "devicetaintrules",
		"resourcepoolstatusrequests",
		// What the API server keeps for itself: allocators, and who its peers are.
		"ranges", "masterleases", "peerserverleases":
		return true
	// OpenShift's.
	case "images", "users", "identities", "useridentities", "groups", "rangeallocations", "securitycontextconstraints",
		"clusternetworks", "hostsubnets", "netnamespaces", "brokertemplateinstances",
		"oauthclients", "oauthclientauthorizations", "oauthaccesstokens", "oauthauthorizetokens":
		return true
	}
	return false
}
