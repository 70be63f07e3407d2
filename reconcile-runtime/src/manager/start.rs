//! Which controllers may start, as a pure function of which kinds are synced.
//!
//! A controller starts when every kind of the manager is synced, or, if it said
//! [`needs_only`](crate::Controller::needs_only), when those are. Once started it goes on: a kind that loses its
//! store later keeps its cache.

/// Which kinds, by their place in the manager, a controller waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Every kind of the manager.
    All,
    /// Only these.
    Only(Vec<usize>),
}

impl Needs {
    /// The kinds that are still missing, in the manager's order.
    pub(super) fn missing(&self, synced: &[bool]) -> Vec<usize> {
        let unsynced = |kind: &usize| !synced.get(*kind).copied().unwrap_or(false);
        match self {
            Needs::All => (0..synced.len()).filter(unsynced).collect(),
            Needs::Only(kinds) => {
                let mut missing: Vec<usize> = kinds.iter().copied().filter(unsynced).collect();
                missing.sort_unstable();
                missing.dedup();
                missing
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_waits_for_every_kind_or_for_those_it_names() {
        let cases: [(Needs, &[bool], &[usize]); 7] = [
            (Needs::All, &[], &[]),
            (Needs::All, &[true, true], &[]),
            (Needs::All, &[true, false, false], &[1, 2]),
            (Needs::Only(vec![]), &[false], &[]),
            (Needs::Only(vec![0]), &[true, false], &[]),
            (Needs::Only(vec![1, 0, 1]), &[false, false, false], &[0, 1]),
            (Needs::Only(vec![7]), &[true], &[7]),
        ];
        for (needs, synced, missing) in cases {
            assert_eq!(needs.missing(synced), missing, "{needs:?} with {synced:?}");
        }
    }
}
