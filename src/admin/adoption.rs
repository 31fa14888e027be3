//! The balance of an activity that is taken over: its total, what its participants hold, and what is left.

use crate::model::layout::Kind;
use crate::model::number::MAX_UNITS;

/// What was found of an activity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    /// How it records who bought.
    pub kind: Kind,
    /// Units for sale, withdrawn ones included; `None` if the stock key is gone.
    pub units: Option<u64>,
    /// The total that the operator gave, else the one in its meta.
    pub total: Option<u64>,
    /// Units of all participants whose units are recorded.
    pub held: u64,
    /// Participants who hold something.
    pub holders: u64,
    /// Those of them whose units nobody recorded.
    pub unknown: u64,
}

/// What it will be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Adopted {
    /// Its total.
    pub total: u64,
    /// Units that participants hold, those of unknown holdings included.
    pub held: u64,
    /// Units for sale.
    pub units: u64,
}

/// Why it cannot be taken over as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unadoptable {
    /// Only the operator can know the total: what was sold is recorded nowhere.
    TotalNeeded,
    /// Units were sold, and nobody holds any.
    Evicted,
    /// The total differs from stock plus holdings, which are this many units.
    OtherTotal(u64),
    /// The stock is gone, and without all holdings nobody can say what it was.
    StockLost,
}

impl Found {
    /// The balance of the activity.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn adopted(&self) -> Result<Adopted, Unadoptable> {
        let known = self.units.unwrap_or(0).saturating_add(self.held);
        if known > MAX_UNITS {
            return Err(Unadoptable::OtherTotal(known));
        }
        let Some(units) = self.units else { return self.without_stock() };
        if self.kind == Kind::Counter || self.unknown > 0 {
            let total = self.total.ok_or(Unadoptable::TotalNeeded)?;
            // A holder has at least one unit.
            let least = known.saturating_add(self.unknown);
            if total < least {
                return Err(Unadoptable::OtherTotal(least));
            }
            return Ok(Adopted { total, held: total - units, units });
        }
        let total = self.total.unwrap_or(known);
        if self.holders == 0 && total > units {
            return Err(Unadoptable::Evicted);
        }
        if total != known {
            return Err(Unadoptable::OtherTotal(known));
        }
        Ok(Adopted { total, held: self.held, units })
    }

    /// What nobody holds was for sale, if everybody's units are known.
    fn without_stock(&self) -> Result<Adopted, Unadoptable> {
        if self.kind == Kind::Counter || self.unknown > 0 {
            return Err(Unadoptable::StockLost);
        }
        if self.holders == 0 {
            return Err(Unadoptable::Evicted);
        }
        let total = self.total.ok_or(Unadoptable::TotalNeeded)?;
        let units = total.checked_sub(self.held).ok_or(Unadoptable::OtherTotal(self.held))?;
        Ok(Adopted { total, held: self.held, units })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: Found = Found { kind: Kind::Hash, units: Some(10), total: None, held: 40, holders: 12, unknown: 0 };

    #[test]
    fn the_total_is_stock_and_holdings_and_no_other() {
        assert_eq!(HASH.adopted(), Ok(Adopted { total: 50, held: 40, units: 10 }));
        assert!(Found { total: Some(50), ..HASH }.adopted().is_ok());
        assert_eq!(Found { total: Some(60), ..HASH }.adopted(), Err(Unadoptable::OtherTotal(50)));
        assert_eq!(Found { total: Some(49), ..HASH }.adopted(), Err(Unadoptable::OtherTotal(50)));
        let nobody = Found { held: 0, holders: 0, ..HASH };
        assert_eq!(nobody.adopted(), Ok(Adopted { total: 10, held: 0, units: 10 }));
        assert_eq!(Found { total: Some(50), ..nobody }.adopted(), Err(Unadoptable::Evicted));
        assert_eq!(Found { held: MAX_UNITS, ..HASH }.adopted(), Err(Unadoptable::OtherTotal(MAX_UNITS + 10)));
        assert!(Found { held: MAX_UNITS - 10, ..HASH }.adopted().is_ok(), "the most there can be");
    }

    #[test]
    fn what_nobody_recorded_needs_a_total() {
        let product = Found { kind: Kind::Counter, held: 0, holders: 0, ..HASH };
        assert_eq!(product.adopted(), Err(Unadoptable::TotalNeeded));
        assert_eq!(Found { total: Some(50), ..product }.adopted(), Ok(Adopted { total: 50, held: 40, units: 10 }));
        assert_eq!(Found { total: Some(9), ..product }.adopted(), Err(Unadoptable::OtherTotal(10)));
        assert_eq!(Found { total: Some(10), ..product }.adopted(), Ok(Adopted { total: 10, held: 0, units: 10 }));
        let sku = Found { kind: Kind::Set, held: 3, holders: 7, unknown: 5, ..HASH };
        assert_eq!(sku.adopted(), Err(Unadoptable::TotalNeeded));
        assert_eq!(Found { total: Some(50), ..sku }.adopted(), Ok(Adopted { total: 50, held: 40, units: 10 }));
        assert_eq!(Found { total: Some(17), ..sku }.adopted(), Err(Unadoptable::OtherTotal(18)));
    }

    #[test]
    fn a_lost_stock_is_what_nobody_holds_of_a_total() {
        let lost = Found { units: None, ..HASH };
        assert_eq!(lost.adopted(), Err(Unadoptable::TotalNeeded));
        assert_eq!(Found { total: Some(50), ..lost }.adopted(), Ok(Adopted { total: 50, held: 40, units: 10 }));
        assert_eq!(Found { total: Some(39), ..lost }.adopted(), Err(Unadoptable::OtherTotal(40)));
        assert_eq!(Found { total: Some(50), holders: 0, held: 0, ..lost }.adopted(), Err(Unadoptable::Evicted));
        for unknown in [Found { kind: Kind::Counter, ..lost }, Found { kind: Kind::Set, unknown: 1, ..lost }] {
            assert_eq!(Found { total: Some(50), ..unknown }.adopted(), Err(Unadoptable::StockLost));
        }
    }
}
