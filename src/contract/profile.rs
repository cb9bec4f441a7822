//! A backend's answer on each axis, as data.
//!
//! Read by the conformance suite, by the lifecycle layer, by `profiles` on the command line and by
//! the generated table in the docs. Nobody above a backend asks which backend it is.

use super::model::State;

/// An axis in words, each text with a blank in front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meaning {
    /// The axis.
    pub axis: &'static str,
    /// What it asks.
    pub question: &'static str,
    /// Every answer with what it means.
    pub answers: &'static [(&'static str, &'static str)],
}

macro_rules! axes {
    ($($(#[doc = $question:literal])+ $field:ident: $axis:ident, $name:literal { $($(#[doc = $meaning:literal])+ $value:ident = $text:literal,)+ })+) => {
        $(
            $(#[doc = $question])+
            #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
            pub enum $axis { $($(#[doc = $meaning])+ $value,)+ }

            impl $axis {
                /// Every answer on this axis.
                pub const ALL: &'static [Self] = &[$(Self::$value,)+];

                /// The answer's name.
                #[must_use]
                pub fn as_str(self) -> &'static str {
                    match self { $(Self::$value => $text,)+ }
                }
            }
        )+

        /// A backend's answers.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Profile {
            /// The kind of backend, as its configuration block is called.
            pub kind: &'static str,
            /// The states it can report; a state that is missing here never comes.
            pub states: &'static [State],
            $($(#[doc = $question])+ pub $field: $axis,)+
        }

        impl Profile {
            /// The names of the axes, in order.
            pub const AXES: &'static [&'static str] = &[$($name,)+];

            /// What each axis asks and what each answer on it means, in the order of [`Profile::AXES`].
            pub const MEANINGS: &'static [Meaning] = &[$(Meaning {
                axis: $name,
                question: concat!($($question,)+),
                answers: &[$(($text, concat!($($meaning,)+)),)+],
            },)+];

            /// The answers, in the order of [`Profile::AXES`].
            #[must_use]
            pub fn answers(&self) -> Vec<&'static str> {
                vec![$(self.$field.as_str(),)+]
            }
        }
    };
}

axes! {
    /// How long until a created instance serves.
    readiness: Readiness, "readiness" {
        /// Seconds.
        Immediate = "immediate",
        /// Minutes of boot, and on first use an image download.
        ProvisioningWindow = "provisioning-window",
    }
    /// When create returns.
    create_return: CreateReturn, "create-return" {
        /// As soon as the backend accepted it.
        Submit = "submit",
        /// When the instance was started.
        Blocking = "blocking",
        /// When the backend's own operation ended.
        Operation = "operation",
    }
    /// When delete returns.
    delete_return: DeleteReturn, "delete-return" {
        /// Before everything is gone: the caller waits until `get` proves absence.
        ReturnsEarly = "returns-early",
        /// When nothing is left.
        Waits = "waits",
    }
    /// Where the address comes from.
    ip_source: IpSource, "ip-source" {
        /// The backend assigns it.
        AssignedAtCreate = "assigned-at-create",
        /// It is looked for on the network.
        Discovered = "discovered",
        /// It is the address listened on.
        Listen = "listen",
    }
    /// How the mark is written.
    gc_mark: GcMark, "gc-mark" {
        /// As labels the backend can select on.
        NativeLabels = "native-labels",
        /// As metadata that is read back.
        WrittenMetadata = "written-metadata",
    }
    /// Where `created_at` comes from.
    created_at: CreatedAt, "created-at" {
        /// The backend keeps it.
        BackendTimestamp = "backend-timestamp",
        /// The mark holds it.
        WrittenAtCreate = "written-at-create",
    }
    /// What a listing does with a part it cannot read.
    list_partial: ListPartial, "list-partial" {
        /// One call answers or fails as a whole; one unreadable object is skipped and named.
        NamesObjects = "names-objects",
        /// Unreachable parts and unreadable objects are left out and named.
        NamesParts = "names-parts",
    }
    /// Whether a used-up allowance is told apart.
    quota: Quota, "quota" {
        /// It is not.
        Absent = "absent",
        /// It is reported as QuotaExceeded.
        Detected = "detected",
    }
    /// How absence is proved.
    not_found: NotFoundBy, "not-found" {
        /// HTTP status 404.
        Status404 = "status-404",
        /// An error code.
        ErrorCode = "error-code",
        /// The absence of its directory.
        Directory = "directory",
    }
    /// What makes a second create find the first.
    primary_key: PrimaryKey, "primary-key" {
        /// The name, guarded by the uid.
        NameWithUidGuard = "name-with-uid-guard",
    }
    /// How an instance on its way is seen.
    provisioning_state: ProvisioningState, "provisioning-state" {
        /// The backend has such a state.
        Native = "native",
        /// Create blocks through it.
        CreateBlocks = "create-blocks",
    }
    /// Whether the backend answers with a handle to work that goes on.
    async_ops: AsyncOps, "async-ops" {
        /// It does not.
        None = "none",
        /// It does, and the handle is followed to its end.
        Followed = "followed",
    }
    /// What belongs to an instance and how it goes.
    secondary_resources: SecondaryResources, "secondary-resources" {
        /// Nothing.
        None = "none",
        /// The backend removes it with the instance.
        Cascade = "cascade",
        /// Delete removes it, and a listing finds it without its instance.
        Explicit = "explicit",
    }
    /// Where credentials come from.
    credentials: Credentials, "credentials" {
        /// None are needed.
        None = "none",
        /// kubeconfig, token files, exec plugins or in-cluster, read again when refused.
        WorkloadIdentity = "workload-identity",
        /// The environment's default credentials, refreshed when refused.
        Environment = "environment",
        /// Files, read on every dial.
        ReadPerDial = "read-per-dial",
    }
    /// What talks to the backend.
    client_kind: ClientKind, "client-kind" {
        /// The vendor's SDK.
        VendorSdk = "vendor-sdk",
        /// libvirt's RPC through an SSH connection.
        RpcOverSsh = "rpc-over-ssh",
        /// Processes and files of this machine.
        Process = "process",
    }
    /// What bounds a call.
    timeouts: Timeouts, "timeouts" {
        /// Every call has a budget.
        PerCall = "per-call",
    }
    /// What is logged.
    logging: Logging, "logging" {
        /// Outcomes at DEBUG, detail at TRACE.
        Tiered = "tiered",
    }
    /// Where the spans under an operation come from.
    child_spans: ChildSpans, "child-spans" {
        /// A decorator around the seam.
        SpanDecorator = "span-decorator",
        /// A layer of the HTTP client.
        TransportWrapper = "transport-wrapper",
        /// The SDK itself.
        SdkInstrumentation = "sdk-instrumentation",
    }
    /// What the tests run against.
    backend_test: BackendTest, "backend-test" {
        /// The real thing, in `make test`.
        Real = "real",
        /// A server checked against the vendor's documents and tools.
        CheckedServer = "checked-server",
        /// Itself: the reference.
        Reference = "reference",
    }
    /// What create does with an instance that has the name.
    adoption: Adoption, "adoption" {
        /// Adopts a pending one of the same uid; refuses everything else, naming the way out.
        Guarded = "guarded",
    }
    /// Whose address the world sees.
    egress_ip: EgressIp, "egress-ip" {
        /// One of the proxy's own.
        Distinct = "distinct",
        /// One shared with others.
        Shared = "shared",
        /// The route of the host it runs on.
        HostRoute = "host-route",
    }
    /// From where the proxy's address can be reached.
    reachable_from: ReachableFrom, "reachable-from" {
        /// This machine.
        ThisMachine = "this-machine",
        /// The cluster's network.
        ClusterNetwork = "cluster-network",
        /// The address's network, once the firewall lets in.
        AllowedCidrs = "allowed-cidrs",
        /// The LAN of the host.
        HostLan = "host-lan",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_axis_and_every_answer_has_its_meaning() {
        let axes: Vec<_> = Profile::MEANINGS.iter().map(|meaning| meaning.axis).collect();
        assert_eq!(axes, Profile::AXES);
        for meaning in Profile::MEANINGS {
            assert!(meaning.question.ends_with('.'), "{meaning:?}");
            assert!(!meaning.answers.is_empty());
            for (answer, text) in meaning.answers {
                assert!(text.ends_with('.'), "{}: {answer}", meaning.axis);
            }
        }
    }

    #[test]
    fn there_are_the_nineteen_axes_of_old_and_three_of_ours() {
        assert_eq!(Profile::AXES.len(), 22);
        for ours in ["adoption", "egress-ip", "reachable-from"] {
            assert!(Profile::AXES.contains(&ours));
        }
    }
}
