//! The two kinds of objects that the suite stores.

use reconcile_core::{Faults, Object, ObjectMeta, Spec};

/// The wanted state of a [`Probe`].
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ProbeSpec {
    /// At most [`ProbeSpec::LARGEST`].
    pub size: u32,
    /// Left out, it becomes [`ProbeSpec::DEFAULT_TONE`].
    #[cfg_attr(feature = "serde", serde(default))]
    pub tone: Option<String>,
    /// Anything but an exclamation mark. What was created as [`ProbeSpec::FROZEN`] may not be changed.
    pub text: String,
}

impl ProbeSpec {
    /// The largest valid size.
    pub const LARGEST: u32 = 1_000_000;
    /// The tone of a probe that asks for none.
    pub const DEFAULT_TONE: &'static str = "grey";
    /// The text of a probe whose spec is valid when it is created, and invalid on every change: it stands for
    /// an object that was stored before the rules became stricter.
    pub const FROZEN: &'static str = "frozen";
}

/// The reported state of a [`Probe`].
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ProbeStatus {
    /// A number to report.
    pub ready: u32,
}

impl Spec for ProbeSpec {
    const KIND: &'static str = "Probe";
    type Status = ProbeStatus;

    fn set_defaults(&mut self, _meta: &ObjectMeta) {
        self.tone.get_or_insert_with(|| ProbeSpec::DEFAULT_TONE.to_owned());
    }

    fn validate(&self, _meta: &ObjectMeta, old: Option<&Self>, faults: &mut Faults) {
        if self.size > ProbeSpec::LARGEST {
            faults.add("spec.size", format!("must be at most {}", ProbeSpec::LARGEST));
        }
        if self.text.contains('!') {
            faults.add("spec.text", "must not contain an exclamation mark");
        }
        if old.is_some_and(|old| old.text == ProbeSpec::FROZEN) {
            faults.add("spec", "is frozen");
        }
    }
}

/// The kind that most cases use: it has defaults, validation and a status.
///
/// With the feature `serde` its spec and status implement serde's traits.
pub type Probe = Object<ProbeSpec>;

/// The wanted state of a [`Gadget`].
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct GadgetSpec {
    /// Any number.
    pub count: u32,
}

impl Spec for GadgetSpec {
    const KIND: &'static str = "Gadget";
    type Status = u32;
}

/// The second kind of the same store, for what must not mix.
pub type Gadget = Object<GadgetSpec>;
