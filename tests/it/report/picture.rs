//! `report --svg`: a picture that any viewer can show, and that shows nothing it should not.

use std::fs;

use super::{rush_of_2021, sale_of_2021};
use crate::snapshots::is_as_stored;
use crate::support::{PRODUCT, TestRedis};

/// The picture, which must be XML.
#[track_caller]
fn picture(redis: &TestRedis, layout: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sale.svg");
    let call =
        redis.seckill(["report", "1001", "-q", "-l", layout, "--timezone", "Asia/Shanghai", "--svg"]).args([&path]);
    call.code(0).stderr("").stdout_has("1001");
    fs::read_to_string(&path).unwrap()
}

/// Where a number is in an attribute; 0 without one.
fn number(node: roxmltree::Node<'_, '_>, name: &str) -> f64 {
    node.attribute(name).map_or(0.0, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text:?}")))
}

/// Checks what holds of every picture: it is XML, nothing in it runs or is fetched, and nothing is drawn outside.
#[track_caller]
fn is_sound(text: &str) {
    let xml = roxmltree::Document::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let root = xml.root_element();
    let (wide, high) = (number(root, "width"), number(root, "height"));
    assert_eq!(root.attribute("viewBox"), Some(&*format!("0 0 {wide} {high}")));
    for node in root.descendants().filter(roxmltree::Node::is_element) {
        let name = node.tag_name().name();
        let known = ["svg", "title", "desc", "style", "rect", "text", "line", "path", "circle"];
        assert!(known.contains(&name), "{name}");
        for attribute in node.attributes() {
            let (name, value) = (attribute.name(), attribute.value());
            assert!(!name.starts_with("on") && !name.contains("href") && !value.contains("url("), "{name}={value}");
            assert!(!value.contains("NaN") && !value.contains("inf"), "{name}={value}");
        }
        let (x, y) = (number(node, "x") + number(node, "width"), number(node, "y") + number(node, "height"));
        if name != "svg" {
            assert!((0.0..=wide + 0.1).contains(&x) && (0.0..=high + 0.1).contains(&y), "{name} at {x}, {y}");
        }
    }
    let style = root.descendants().find(|node| node.has_tag_name("style")).and_then(|node| node.text()).unwrap();
    assert!(style.contains("prefers-color-scheme:dark") && !style.contains("@import") && !style.contains("url("));
}

/// Texts of one line that are written over each other.
fn overlaps(text: &str) -> Vec<(String, String)> {
    let xml = roxmltree::Document::parse(text).unwrap();
    let mut spans: Vec<(f64, f64, f64, String)> = Vec::new();
    for node in xml.descendants().filter(|node| node.has_tag_name("text")) {
        let (class, text) = (node.attribute("class").unwrap_or(""), node.text().unwrap_or(""));
        let size = if class.contains("title") {
            22.0
        } else if class.contains("value") {
            21.0
        } else {
            12.0
        };
        let long = text.chars().count() as f64 * size * 0.5;
        let from = number(node, "x")
            - if class.contains("end") {
                long
            } else if class.contains("mid") {
                long / 2.0
            } else {
                0.0
            };
        spans.push((number(node, "y"), from, from + long, text.to_owned()));
    }
    let mut found = Vec::new();
    for (index, one) in spans.iter().enumerate() {
        for other in &spans[index + 1..] {
            if (one.0 - other.0).abs() < 9.0 && one.1 < other.2 && other.1 < one.2 {
                found.push((one.3.clone(), other.3.clone()));
            }
        }
    }
    found
}

#[test]
fn the_picture_is_sound_and_its_labels_do_not_overlap() {
    let text = picture(&sale_of_2021(), "seckill");
    is_sound(&text);
    assert_eq!(overlaps(&text), []);
    assert!(text.contains("<title>Sale of Phone &lt;手机&gt; &amp; &quot;case&quot; (1001)</title>"), "{text}");
    for part in
        ["sold out", "pause", "resume", "total 800 to 1,000", "00:00:02", "time in Asia/Shanghai (+08:00)", "user-100"]
    {
        assert!(text.contains(&format!(">{part}")), "{part}: {text}");
    }
    // What is pointed at says who did it and why, and no control character is left of it.
    assert!(text.contains(r"by ann@ops: price\u{1b}[2J is &quot;wrong&quot; &amp; &lt;low&gt;</title>"), "{text}");
    assert!(!text.contains('\u{1b}'));
}

#[test]
fn the_picture_of_the_documents_is_drawn_by_the_tool() {
    let text = picture(&rush_of_2021(), "seckill");
    is_sound(&text);
    assert_eq!(overlaps(&text), []);
    is_as_stored("../../../docs/report.svg", &text);
}

#[test]
fn a_sale_of_one_order_and_one_of_none_are_drawn_too() {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "1001", "--stock", "5", "-l", "product"]).code(0);
    let none = picture(&redis, PRODUCT.name);
    is_sound(&none);
    assert!(none.contains("Nobody has bought anything yet."), "{none}");
    redis.seckill(["deduct", "1001", "--quantity", "5", "-l", "product"]).code(0);
    let one = picture(&redis, PRODUCT.name);
    is_sound(&one);
    assert!(one.contains(">sold out<") && !one.contains("Units a user"), "{one}");
}

#[test]
fn a_file_that_cannot_be_written_is_said_before_anything_is_read() {
    let redis = TestRedis::selling("1001", 5);
    redis.seckill(["report", "1001", "--svg", "/nonexistent/sale.svg"]).code(1).stdout_is("").stderr_has("sale.svg");
    redis.seckill(["report", "1001", "--svg", "-"]).code(2).stdout_is("").stderr_has("--svg -");
    // Nothing is written of a sale that has no report.
    let dir = tempfile::tempdir().unwrap();
    redis.seckill(["report", "7", "--svg"]).args([dir.path().join("sale.svg")]).code(3);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}
