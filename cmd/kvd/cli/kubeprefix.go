package cli

import (
	"github.com/spf13/pflag"

	"kvd/pkg/ops/kube/keys"
)

// kubePrefix is kube-apiserver's --etcd-prefix, where it is none that is known: one, or
// several with commas between.
type kubePrefix string

func (k *kubePrefix) addFlags(fs *pflag.FlagSet) {
	fs.StringVar((*string)(k), "kube-prefix", "", "kube-apiserver's --etcd-prefix, if it is none of /registry, /kubernetes.io, /openshift.io; commas between those of several clusters")
}

// in is the layout that knows it, too.
func (k kubePrefix) in(l keys.Layout) keys.Layout {
	if k == "" {
		return l
	}
	return l.With(string(k))
}
