//! Is the harness what it says it is?

use reconcile_core::ObjectKey;
use reconcile_runtime::store::Damage;

use super::{
    Power, PowerError,
    check::{Check, Failure, holds, same},
    lab::Lab,
};

/// A power that works must not be declared as missing: its cases would never run.
#[allow(clippy::print_stdout, reason = "the declaration is the output of the test")]
pub(super) async fn what_is_declared_missing_is_missing(lab: Lab) -> Check {
    let key = ObjectKey::new("nothing");
    for missing in lab.harness().missing() {
        println!("the store is declared as not {}: {}", missing.power, missing.why);
        let harness = lab.harness();
        let used = match missing.power {
            Power::Compact => harness.compact().await,
            Power::Damage => harness.damage(&key, Damage::Content).await,
            Power::Undefault => harness.undefault(&key).await,
            Power::Kill => harness.kill().await,
            Power::LoseReply => harness.lose_next_reply().await,
            Power::Restore => harness.restore().await,
            Power::Leases => {
                let fencing = lab.probes().guarantees().fencing;
                if lab.leases().is_err() && !fencing { Err(PowerError::NotSupported) } else { Ok(()) }
            }
        };
        if !matches!(used, Err(PowerError::NotSupported)) {
            return Err(Failure::new(
                format!("using the power of {}", missing.power),
                "that it is missing, as declared",
                "it is there: take it off the list of what is missing",
            ));
        }
    }
    Ok(())
}

/// All handles on a store name it alike, another store has another name, and fencing goes with leases.
pub(super) async fn handles_agree_on_guarantees(lab: Lab) -> Check {
    let guarantees = lab.probes().guarantees();
    same("guarantees of the other kind", lab.gadgets().guarantees(), guarantees.clone())?;
    same("guarantees of another handle", lab.reopened().await.probes().guarantees(), guarantees.clone())?;
    let other = lab.elsewhere().await.probes().guarantees().store_id;
    let different = other != guarantees.store_id;
    holds("store id of another store", "another one", different, || other.to_string())?;
    let leases = !lab.harness().missing().iter().any(|missing| missing.power == Power::Leases);
    same("whether the store promises fencing, as its harness does", guarantees.fencing, leases)
}
