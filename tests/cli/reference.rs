//! The reference backend as a CLI run sees it: a world in a file that the test reads and breaks.
//!
//! Knows nothing of single tests. Invariant: the world is only written while no CLI runs.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};

use crate::release::Cli;
use crate::workspace::Workspace;

/// A workspace whose one backend is the reference backend, named `reference`.
pub(crate) struct Reference {
    pub(crate) workspace: Workspace,
}

impl Reference {
    /// With this much of a configuration beside the provider's.
    pub(crate) fn with(cli: &Cli, resources: &str) -> Self {
        let workspace = Workspace::new(cli);
        let reference = Self { workspace };
        reference.write_provider("prod", "reference");
        reference.workspace.write("main.tf", resources);
        reference
    }

    /// With one proxy `a`, and these arguments in it.
    pub(crate) fn one_proxy(cli: &Cli, arguments: &str) -> Self {
        Self::with(cli, &proxy(arguments))
    }

    pub(crate) fn write_provider(&self, installation: &str, backend: &str) {
        self.workspace
            .write("provider.tf", &self.provider(installation, backend));
    }

    pub(crate) fn provider(&self, installation: &str, backend: &str) -> String {
        format!(
            r#"
terraform {{
  required_providers {{
    egress = {{
      source = "egress-proxies/egress"
    }}
  }}
}}

provider "egress" {{
  installation = "{installation}"
  backend "{backend}" {{
    memory {{
      file = {:?}
    }}
  }}
}}
"#,
            self.workspace.path("world.json")
        )
    }

    /// The world as it is now.
    pub(crate) fn world(&self) -> Value {
        let text = fs::read_to_string(self.workspace.path("world.json")).unwrap_or_else(|_| "{}".to_owned());
        serde_json::from_str(&text).expect("the world file is JSON")
    }

    /// Changes the world behind the state's back.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Value)) {
        let mut world = self.world();
        change(&mut world);
        fs::write(self.workspace.path("world.json"), world.to_string()).expect("a file");
    }

    /// Puts in what goes wrong next.
    pub(crate) fn fault(&self, fault: Value) {
        self.change(|world| world["faults"] = json!([fault]));
    }

    /// Every instance there is, by `namespace/name`.
    pub(crate) fn instances(&self) -> BTreeMap<String, Value> {
        let world = self.world();
        let instances = world["zones"]["z1"]["instances"].as_object().cloned();
        instances.unwrap_or_default().into_iter().collect()
    }

    /// Changes the one proxy `a`.
    pub(crate) fn change_a(&self, change: impl FnOnce(&mut Value)) {
        self.change(|world| change(&mut world["zones"]["z1"]["instances"]["default/a"]));
    }

    /// Nothing is left, secondary objects included.
    #[track_caller]
    pub(crate) fn is_empty(&self) {
        assert_eq!(self.instances(), BTreeMap::new());
        let world = self.world();
        let left = world["zones"]["z1"]["secondary"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        assert!(left.is_empty(), "{left:#?}");
    }

    /// How often each operation was called since the last time.
    pub(crate) fn calls(&self) -> BTreeMap<String, usize> {
        let path = self.workspace.path("world.json.calls");
        let lines = fs::read_to_string(&path).unwrap_or_default();
        let _ = fs::remove_file(&path);
        let mut calls = BTreeMap::new();
        for line in lines.lines() {
            *calls
                .entry(line.split(' ').next().unwrap_or_default().to_owned())
                .or_default() += 1;
        }
        calls
    }
}

/// One proxy `a`, with these arguments.
pub(crate) fn proxy(arguments: &str) -> String {
    format!("resource \"egress_proxy\" \"a\" {{\n  name = \"a\"\n{arguments}\n}}\n")
}
