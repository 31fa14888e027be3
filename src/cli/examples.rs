//! Examples at the end of each command's `--help`. A test parses them: they stay true.

/// The examples of a command; `path` is what follows `seckill`. A line that begins with `#` says what the next one does.
pub(crate) fn of(path: &str) -> &'static str {
    match path {
        "" => ROOT,
        "preheat" => PREHEAT,
        "deduct" => DEDUCT,
        "multi-deduct" => MULTI_DEDUCT,
        "refund" => REFUND,
        "hold" => HOLD,
        "confirm" => CONFIRM,
        "release" => RELEASE,
        "expire" => EXPIRE,
        "inspect" => INSPECT,
        "reconcile" => RECONCILE,
        "repair" => REPAIR,
        "ledger" => LEDGER,
        "ledger trim" => LEDGER_TRIM,
        "doctor" => DOCTOR,
        "report" => REPORT,
        "run" => RUN,
        "pause" => PAUSE,
        "resume" => RESUME,
        "bench" => BENCH,
        "archive" => ARCHIVE,
        "completions" => COMPLETIONS,
        "man" => MAN,
        "context" => CONTEXT,
        "context list" => CONTEXT_LIST,
        "context add" => CONTEXT_ADD,
        "context use" => CONTEXT_USE,
        "context show" => CONTEXT_SHOW,
        "context remove" => CONTEXT_REMOVE,
        "script" => SCRIPT,
        "script list" => SCRIPT_LIST,
        "script show" => SCRIPT_SHOW,
        "script load" => SCRIPT_LOAD,
        _ => "",
    }
}

const ROOT: &str = "
seckill preheat --id 1001 --stock 50 --per-user-limit 2
seckill deduct 1001 --user 12345
seckill inspect 1001
seckill reconcile
# Try it without a server of your own
seckill run fixtures/seckill.yaml --embedded
";

const PREHEAT: &str = "
# One activity
seckill preheat --id 1001 --stock 50 --per-user-limit 2 --title phone
# All activities of a fixture; see the plan first
seckill preheat sale.yaml --dry-run
seckill preheat sale.yaml
# 20 units more for a live sale; purchases stay
seckill preheat --id 1001 --stock 70 --update
# The same, unless somebody else changed the total meanwhile
seckill preheat --id 1001 --stock 70 --update --if-total 50
# Take over an activity that another system created
seckill preheat --id 1001 --adopt
# Hundreds of activities from a list
seckill preheat --from activities.csv
# Bring back what was archived
seckill preheat --restore /backup/sales/1001.seckill.1
";

const DEDUCT: &str = "
# Two units for user 12345
seckill deduct 1001 --user 12345 --quantity 2
# With your own request id: sent again, it changes nothing
seckill deduct 1001 --user 12345 --request order-778
# A file of orders, each applied exactly once; the same command resumes
seckill deduct --from orders.csv --map user=buyer_id,activity=sku
";

const MULTI_DEDUCT: &str = "
# Two units of 1001 and one of 1002, or nothing
seckill multi-deduct --user 12345 1001=2 1002=1
# A file with one such order per line
seckill multi-deduct --from baskets.jsonl
";

const REFUND: &str = "
# One unit back
seckill refund 1001 --user 12345
# Everything that the user holds
seckill refund 1001 --user 12345 --all --reason 'wrong price'
# A file of refunds, each applied exactly once
seckill refund --from refunds.csv
";

const HOLD: &str = "
# Two units for 15 minutes, until the payment comes
seckill hold 1001 --user 12345 --quantity 2 --for 15m --request order-778
# A file of orders; one without an id is confirmed as <job>:<line>
seckill hold --from orders.csv --for 15m --job night
";

const CONFIRM: &str = "
# Order 778 was paid
seckill confirm 1001 --request order-778
# A file of payments, each applied exactly once; the same command resumes
seckill confirm --from payments.csv --map activity=sku,request=order_id
";

const RELEASE: &str = "
# Order 778 was cancelled
seckill release 1001 --request order-778
# A file of cancelled orders
seckill release --from cancelled.csv
";

const EXPIRE: &str = "
# What is overdue now, of all activities
seckill expire
# As a service
seckill expire --every 1s -o jsonl
";

const INSPECT: &str = "
# All preheated activities
seckill inspect
# Metrics for node_exporter's textfile collector
seckill inspect -o prometheus --to /var/lib/prometheus/node-exporter/seckill.prom
# One activity and its 20 largest buyers
seckill inspect 1001 --top 20
# What one user holds and may still buy
seckill inspect 1001 --user 12345
# Why can this user not buy? What did the user do, everywhere?
seckill inspect 1001 --user 12345 --why
seckill inspect --user 12345 --why
# What is held open, by deadline; what is overdue
seckill inspect 1001 --holds
seckill inspect --holds --overdue
# The shards of an activity, a row each
seckill inspect 1001 --shards
# Which order has this request id?
seckill inspect --request order-778
# Every buyer, for a spreadsheet
seckill inspect 1001 --all -o csv
# Those on sale whose id begins with sku-, the fewest units first
seckill inspect 'sku-*' --state live --sort stock
# The sale as it runs: the screen is redrawn, what sells most comes first
seckill inspect --watch --sort rate
# The same for a program: a row per activity and interval
seckill inspect --watch=10s -o jsonl
# For cron: exit 3 if less than a tenth of a total is left
seckill inspect --alert-below 10% -q
";

const RECONCILE: &str = "
# An audit for Prometheus, whatever it finds
seckill reconcile -o prometheus --to /var/lib/prometheus/node-exporter/audit.prom
# All preheated activities
seckill reconcile
# Against an export of the orders
seckill reconcile 1001 --orders orders.csv --map user=buyer_id,activity=sku
# Against the database; a failed export is noticed
seckill reconcile --orders-cmd 'mysql --batch shop -e \"select …\"' --format mysql
# What the database lacks, to be delivered to it again
seckill reconcile 1001 --orders orders.csv --emit missing_order -o csv
# Repair what differs: see the plan first
seckill reconcile 1001 --fix --dry-run
seckill reconcile 1001 --fix
";

const REPAIR: &str = "
# Write a plan, review it, apply it
seckill reconcile 1001 --plan plan.jsonl
seckill repair plan.jsonl --dry-run
seckill repair plan.jsonl
";

const LEDGER: &str = "
# Everything that happened to an activity
seckill ledger 1001
# The history of one user
seckill ledger 1001 --user 12345
# The last hour, in the time zone of the shop
seckill ledger 1001 --since 1h --timezone Asia/Shanghai
# Watch the sale
seckill ledger 1001 --follow
# Feed a database: rows are acknowledged after the loader succeeded
seckill ledger --all --group warehouse --exec ./load.sh -o csv
# For a queue whose consumers know other names
seckill ledger --all --group queue --follow -o jsonl --map user=userId,quantity=qty
";

const LEDGER_TRIM: &str = "
seckill ledger trim 1001 --before 2026-11-12 --dry-run
seckill ledger trim 1001 --before 2026-11-12
# Keep a week of all preheated activities: one question
seckill ledger trim --all --before 7d
";

const DOCTOR: &str = "
# The server and all preheated activities
seckill doctor
# Before the sale of two of them
seckill doctor 1001 1002
# For cron: exit code 3 if anything fails
seckill doctor -q -o jsonl
";

const REPORT: &str = "
# How the sale went: sell-through, pace, refunds, buyers
seckill report 1001
# The same, and as a picture
seckill report 1001 --svg sale.svg
# The three largest buyers
seckill report 1001 --top 3 -o json | jq '.[0].top_buyers'
# A row for a spreadsheet
seckill report 1001 -o csv
";

const RUN: &str = "
# Preheat, run the steps, check the expectations
seckill run fixtures/seckill.yaml
# On a private server
seckill run fixtures/seckill.yaml --embedded
# Run all steps, also after one that failed
seckill run sale.yaml --keep-going
";

const PAUSE: &str = "
seckill pause 1001 1002 --reason 'wrong price'
";

const RESUME: &str = "
seckill resume 1001 1002
";

const BENCH: &str = "
# How many orders a second does this server take, and how long does one take?
seckill bench --url redis://10.0.0.5:6379
# On a private server: what each way of selling costs, and which oversells
seckill bench --embedded --strategy lua,batch,watch,lock,naive --scenario short
# 5,000 orders a second for a minute, judged: exit 3 if it fails
seckill bench --url redis://10.0.0.5:6379 --yes --rate 5000 --duration 1m --judge 'p99<50ms:200ms' --judge 'qps>4900:4500'
# What it would make
seckill bench --url redis://10.0.0.5:6379 --scenario multi --dry-run
";

const ARCHIVE: &str = "
# See whether it can be archived, and how much it is
seckill archive 1001 --to /backup/sales --dry-run
# Two activities, after a question
seckill archive 1001 1002 --to /backup/sales
# Bring one back
seckill preheat --restore /backup/sales/1001.seckill.1
";

const COMPLETIONS: &str = "
# Now and in each new shell: bash, zsh, fish
seckill completions bash > ~/.local/share/bash-completion/completions/seckill
seckill completions zsh > ~/.local/share/zsh/site-functions/_seckill
seckill completions fish > ~/.config/fish/completions/seckill.fish
";

const MAN: &str = "
seckill man > seckill.1
seckill man ledger trim > seckill-ledger-trim.1
# All pages
seckill man --to ~/.local/share/man/man1
";

const CONTEXT: &str = "
# The sale's server, protected against the wrong window
seckill context add sale --url rediss://ops@10.0.0.5:6379 --password-file ~/.sale.pw --protected
seckill context use sale
# One command on another server
seckill inspect --context staging
# In a script, a change of a protected context needs its name
seckill pause 1001 --confirm sale
";

const CONTEXT_LIST: &str = "
seckill context list
";

const CONTEXT_ADD: &str = "
seckill context add staging --url redis://10.0.1.5:6379 --layout sku --timezone Asia/Shanghai
# The password comes from a program; changes ask for the name
seckill context add sale --url rediss://ops@10.0.0.5 --password-command 'pass show sale' --protected
";

const CONTEXT_USE: &str = "
seckill context use sale
# No context from now on
seckill context use --none
";

const CONTEXT_SHOW: &str = "
# The context in use
seckill context show
seckill context show staging
";

const CONTEXT_REMOVE: &str = "
seckill context remove staging
";

const SCRIPT: &str = "
seckill script list
seckill script show deduct
seckill script load
";

const SCRIPT_LIST: &str = "
# Names, SHA-1 and keys in the layout `sku`
seckill script list --layout sku
# The same of the scripts for backends that change nothing else
seckill script list --drop-in
";

const SCRIPT_SHOW: &str = "
# Save a script for your backend; its header explains keys, arguments and replies
seckill script show deduct > deduct.lua
# In place of the plain script that your backend has: same keys, arguments and replies, checked
seckill script show --drop-in seckill > seckill.lua
# A call of it in your language, with every status and with what to do after a timeout
seckill script show deduct --lang python > deduct.py
# Calls for orders that are paid later: `hold`, then `confirm` or `release`
seckill script show hold --lang python > hold.py
seckill script show settle --lang python > settle.py
";

const SCRIPT_LOAD: &str = "
# After this, EVALSHA finds every script of `script list`
seckill script load --url redis://10.0.0.5:6379
";
