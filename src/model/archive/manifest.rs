//! The manifest: what an archive is of, all that is in no other file, and the SHA-256 of each file.

use serde::{Deserialize, Serialize};

use crate::model::activity::rules::PackedRules;
use crate::model::archive::{Bytes, Part};
use crate::model::id::ActivityId;
use crate::model::layout::Layout;
use crate::model::ledger::EntryId;
use crate::model::number::whole;

/// What `format` of every manifest says.
pub(crate) const FORMAT: &str = "seckill-archive";
/// The newest version of it.
pub(crate) const VERSION: u32 = 1;

/// A file and what it must be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileSum {
    /// Which part of the activity it is.
    pub part: Part,
    /// Its name in the folder.
    pub file: String,
    /// The key that it was, and the type of that.
    pub key: String,
    /// `hash`, `set` or `stream`.
    #[serde(rename = "type")]
    pub key_type: String,
    /// What the texts of each line are.
    pub columns: Vec<String>,
    /// How many lines it has.
    pub lines: u64,
    /// How many bytes.
    pub bytes: u64,
    /// SHA-256 of them.
    pub sha256: String,
}

/// A consumer group of the ledger: it has read and acknowledged everything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Group {
    /// Its name.
    pub name: Bytes,
    /// The last entry that was delivered to it.
    pub last_delivered: String,
}

/// What an archive is of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// Always `seckill-archive`.
    pub format: String,
    /// The version of the format.
    pub version: u32,
    /// The activity.
    pub activity: String,
    /// What people call it; empty if it has no title.
    pub title: String,
    /// The layout of its keys.
    pub layout: Layout,
    /// Which sale of the activity.
    pub epoch: u64,
    /// `ended` or `paused`.
    pub state: String,
    /// Units it was preheated with, updates included.
    pub total: u64,
    /// Units that were left, withdrawn ones included.
    pub left: u64,
    /// Total less what was left.
    pub sold: i64,
    /// How many users held units; none if the layout records nobody.
    pub buyers: Option<u64>,
    /// What the audit proved it by.
    pub proof: String,
    /// Names the archive: the meta of the activity has it too.
    pub name: String,
    /// When it was written, by the server's clock.
    pub archived_at: String,
    /// Who did it.
    pub by: String,
    /// Why.
    pub reason: Option<String>,
    /// The server, without a password.
    pub server: String,
    /// What wrote it.
    pub tool: String,
    /// The stock key's text.
    pub stock: String,
    /// All fields of the meta and their values.
    pub meta: Vec<(Bytes, Bytes)>,
    /// Consumer groups of the ledger.
    pub groups: Vec<Group>,
    /// The ledger's last entry.
    pub last_entry: Option<String>,
    /// The other files.
    pub files: Vec<FileSum>,
}

/// A manifest that was read, with the SHA-256 of its own bytes: which archive it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sealed {
    /// What it says.
    pub manifest: Manifest,
    /// Its own SHA-256, in hexadecimal digits.
    pub sha256: String,
}

impl Manifest {
    /// The activity.
    ///
    /// # Errors
    /// It is no id.
    pub(crate) fn id(&self) -> Result<ActivityId, String> {
        self.activity.parse().map_err(|error: crate::model::id::InvalidText| error.to_string())
    }

    /// The sums of a part.
    pub(crate) fn file(&self, part: Part) -> Option<&FileSum> {
        self.files.iter().find(|file| file.part == part)
    }

    /// How many lines a part has.
    pub(crate) fn lines(&self, part: Part) -> u64 {
        self.file(part).map_or(0, |file| file.lines)
    }

    /// The rules of the meta.
    pub(crate) fn rules(&self) -> Option<PackedRules> {
        let (_, text) = self.meta.iter().find(|(field, _)| field.0 == b"rules")?;
        std::str::from_utf8(&text.0).ok()?.parse().ok()
    }

    /// What is wrong with it: it was not written by us, or by a newer version.
    ///
    /// # Errors
    /// What is wrong.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.format != FORMAT {
            return Err(format!("its format is `{}`, not `{FORMAT}`", self.format.escape_debug()));
        }
        if self.version > VERSION {
            return Err(format!("it is of version {}, and this seckill reads version {VERSION}", self.version));
        }
        self.id()?;
        let rules = self.rules().ok_or("its meta has no rules")?;
        if rules.epoch != self.epoch || rules.total != self.total {
            return Err("its meta is of another epoch or total".to_owned());
        }
        whole(&self.stock).ok_or("its stock is no number")?;
        if let Some(last) = &self.last_entry {
            last.parse::<EntryId>()?;
        }
        let kind = self.layout.kind();
        for part in Part::of(kind) {
            let file = self.file(*part).ok_or_else(|| format!("it has no file of {part}"))?;
            if file.file != part.file_name() {
                return Err(format!("its file of {part} is `{}`", file.file.escape_debug()));
            }
        }
        if self.files.len() != Part::of(kind).len() {
            return Err("it has other files".to_owned());
        }
        Ok(())
    }
}

/// The name of an archive's folder: `<id>.<layout>.<epoch>`. What a file's name cannot have, or a shell would need
/// quotes for, is `%` and two hexadecimal digits a byte; `short` shortens an id that is too long.
pub(crate) fn folder_name(activity: &ActivityId, layout: Layout, epoch: u64, short: impl Fn(&str) -> String) -> String {
    const MOST: usize = 160;
    let mut name = String::new();
    for (at, character) in activity.as_str().chars().enumerate() {
        let is_plain = character.is_alphanumeric() || matches!(character, '_' | '-') || (at > 0 && character == '.');
        if is_plain {
            name.push(character);
        } else {
            let mut bytes = [0; 4];
            character.encode_utf8(&mut bytes).bytes().for_each(|byte| name.push_str(&format!("%{byte:02X}")));
        }
    }
    if name.len() > MOST {
        let end = (0..=MOST).rev().find(|end| name.is_char_boundary(*end)).unwrap_or(0);
        name = format!("{}~{}", &name[..end], short(activity.as_str()));
    }
    // The name of a custom layout is a pattern of keys.
    let layout = match layout {
        Layout::Custom(_) => format!("custom-{}", short(layout.name())),
        named => named.name().to_owned(),
    };
    format!("{name}.{layout}.{epoch}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::archive::Digest;
    use crate::model::layout::Kind;

    #[test]
    fn a_folder_is_named_by_the_activity_and_never_leads_elsewhere() {
        let name = |id: &str| folder_name(&id.parse().unwrap(), Layout::Sku, 3, |_| "0123".to_owned());
        assert_eq!(name("1001"), "1001.sku.3");
        assert_eq!(name("双11-手机"), "双11-手机.sku.3");
        assert_eq!(name("../a/b"), "%2E.%2Fa%2Fb.sku.3");
        assert_eq!(name(".hidden*"), "%2Ehidden%2A.sku.3");
        let shop: Layout = serde_json::from_str(r#"{"kind":"counter","keys":{"stock":"shop:{<id>}:left"}}"#).unwrap();
        assert_eq!(folder_name(&"7".parse().unwrap(), shop, 1, |_| "0123".to_owned()), "7.custom-0123.1");
        let long = name(&"/".repeat(128));
        assert!(long.len() < 255 && long.ends_with("~0123.sku.3"), "{long}");
        let long = name(&"%双".repeat(32));
        assert!(long.len() < 255 && long.ends_with("~0123.sku.3"), "{long}");
    }

    fn manifest() -> Manifest {
        let file = |part: &Part| FileSum {
            part: *part,
            file: part.file_name(),
            key: format!("seckill:{part}:7"),
            key_type: part.key_type(Kind::Hash).to_owned(),
            columns: Vec::new(),
            lines: 12,
            bytes: 340,
            sha256: Digest::of(b""),
        };
        Manifest {
            format: FORMAT.to_owned(),
            version: VERSION,
            activity: "7".to_owned(),
            title: String::new(),
            layout: Layout::Seckill,
            epoch: 3,
            state: "ended".to_owned(),
            total: 500,
            left: 20,
            sold: 480,
            buyers: Some(470),
            proof: "ledger".to_owned(),
            name: "0a".to_owned(),
            archived_at: "2026-11-11T00:00:00Z".to_owned(),
            by: "ann".to_owned(),
            reason: None,
            server: "redis://127.0.0.1".to_owned(),
            tool: "seckill".to_owned(),
            stock: "20".to_owned(),
            meta: vec![("title".into(), "x".into()), ("rules".into(), "paused 1 3 2 500 - -".into())],
            groups: Vec::new(),
            last_entry: Some("1700-0".to_owned()),
            files: Part::of(Kind::Hash).iter().map(file).collect(),
        }
    }

    #[test]
    fn a_manifest_that_contradicts_itself_is_refused() {
        type Damage = fn(&mut Manifest);
        let damages: [(Damage, &str); 13] = [
            (|it| it.format = "tar".to_owned(), "its format is `tar`"),
            (|it| it.version = VERSION + 1, "it is of version 2"),
            (|it| it.activity = "a b".to_owned(), "a b"),
            (|it| it.meta.truncate(1), "its meta has no rules"),
            (|it| it.meta[1].1 = "paused 1".into(), "its meta has no rules"),
            (|it| it.epoch = 4, "another epoch or total"),
            (|it| it.total = 501, "another epoch or total"),
            (|it| it.stock = "-1".to_owned(), "its stock is no number"),
            (|it| it.last_entry = Some("x".to_owned()), "x"),
            (|it| it.files[1].part = Part::Units, "it has no file of requests"),
            (|it| it.files[1].file = "../x".to_owned(), "its file of requests is `../x`"),
            (|it| it.files.push(FileSum { part: Part::Units, ..it.files[0].clone() }), "it has other files"),
            (|it| it.layout = Layout::Sku, "it has no file of units"),
        ];
        for (damage, why) in damages {
            let mut damaged = manifest();
            damage(&mut damaged);
            let refused = damaged.check().unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }

    #[test]
    fn a_name_is_shortened_only_if_it_is_too_long() {
        let name = |letters: usize| {
            let id = format!("{}{}", "/".repeat(53), "a".repeat(letters));
            folder_name(&id.parse().unwrap(), Layout::Sku, 3, |_| "0".to_owned())
        };
        assert_eq!(name(1), format!("{}a.sku.3", "%2F".repeat(53)));
        assert_eq!(name(2), format!("{}a~0.sku.3", "%2F".repeat(53)));
    }
}
