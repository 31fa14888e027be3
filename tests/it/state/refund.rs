//! Refunds of all that a user holds, as the command shows them; `statuses/refund.rs` has each status.

use super::sale;
use crate::support::LAYOUTS;
use crate::support::layout::json_call;

#[test]
fn all_can_be_sent_again_and_says_null_where_nothing_was_given_back() {
    for layout in LAYOUTS.into_iter().filter(|layout| layout.has_users()) {
        let redis = sale(layout);
        let given = json_call(&redis, layout, "refund 1 --user 7 --all --request x").code(0).json();
        assert_eq!((&given["quantity"], &given["bought"]), (&1.into(), &0.into()), "{layout:?}");
        let again = json_call(&redis, layout, "refund 1 --user 7 --all --request x").code(0).json();
        assert_eq!((&again["status"], again["quantity"].is_null()), (&"replayed".into(), true), "{layout:?}");
        let nothing = json_call(&redis, layout, "refund 1 --user 7 --all").code(3).json();
        assert_eq!((&nothing["status"], nothing["quantity"].is_null()), (&"exceeds_bought".into(), true), "{layout:?}");
    }
}
