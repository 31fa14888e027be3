//! Which names of columns are ours: in any case, or nearly.

/// Names that people give to a column of ours, lower case and without punctuation.
const ALIASES: [(&str, &str); 11] = [
    (
        "activity",
        "activityid activitycode activityno activities actid campaignid eventid seckillid couponid sku \
         skuid skucode skuno item itemid product productid goods goodsid 活动 活动id 活动编号 商品 商品id 商品编号",
    ),
    (
        "user",
        "userid userno username users usr uid buyer buyerid customer customerid member memberid \
         account accountid openid 用户 用户id 用户编号 买家 买家id 会员id",
    ),
    (
        "quantity",
        "qty quant quantities count cnt num number units amount pieces pcs buynum buycount itemcount \
         数量 件数 购买数量",
    ),
    ("request", "requestid requestno req reqid idempotencykey idempotencyid 请求id"),
    ("ledger", "ledgerid ledgerentry entry entryid"),
    ("items", "item products skus activities goods"),
    ("id", "activity activityid sku skuid itemid productid goodsid 活动id 商品id"),
    ("stock", "total units quantity qty inventory 库存"),
    ("per_user_limit", "limit userlimit perlimit maxperuser buylimit 限购 限购数量"),
    ("starts_at", "start startat starttime starts begin begintime 开始时间"),
    ("ends_at", "end endat endtime ends 结束时间"),
];

/// Whether two names are equal but for their case.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    one == other || one.to_lowercase() == other.to_lowercase()
}

/// Whether a name is probably meant to be one of ours.
pub(crate) fn is_near(ours: &str, name: &str) -> bool {
    let plain = |name: &str| name.chars().filter(|c| c.is_alphanumeric()).collect::<String>().to_lowercase();
    let (plain_ours, name) = (plain(ours), plain(name));
    let aliases = ALIASES.iter().find(|(known, _)| *known == ours).map_or("", |(_, aliases)| aliases);
    // Short names are near to too many others, and a reason that is ignored does no harm.
    let may_be_misspelt = plain_ours.len() >= 5 && ours != "reason";
    plain_ours == name
        || aliases.split_whitespace().any(|alias| alias == name)
        || (may_be_misspelt && strsim::damerau_levenshtein(&plain_ours, &name) == 1)
}
