//! What README says about speed, measured: `make bench`.

mod bulk;

fn main() {
    bulk::run();
}
