//! lua-cjson as a server embeds it: numbers have 14 digits, `/` and DEL are escaped, an empty table is `{}`, and null is a
//! light userdata. The names of an object are sorted here, as nobody may rely on their order.

use std::collections::BTreeMap;

use mlua::{Error, Lua, Result, Table, Value};

const MAX_DEPTH: usize = 1000;

/// The library.
pub fn library(lua: &Lua) -> Result<Table> {
    let library = lua.create_table()?;
    library.set("null", Value::NULL)?;
    let encode = |lua: &Lua, value: Value| {
        let mut text = Vec::new();
        write(&value, &mut text, 0)?;
        lua.create_string(&text)
    };
    library.set("encode", lua.create_function(encode)?)?;
    let decode = |lua: &Lua, text: mlua::LuaString| {
        let text = text.as_bytes();
        let mut reader = Reader { lua, text: &text, at: 0 };
        let value = reader.value(0)?;
        reader.skip_space();
        if reader.at < text.len() { Err(reader.expected("the end")) } else { Ok(value) }
    };
    library.set("decode", lua.create_function(decode)?)?;
    Ok(library)
}

/// C's `%.<digits>g`.
pub fn number(number: f64, digits: i32) -> String {
    if number == number.trunc() && number.abs() < 10f64.powi(digits) {
        return format!("{number:.0}");
    }
    if number.is_nan() {
        return "nan".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let shorter = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    let precision = usize::try_from(digits - 1).expect("some digits");
    let scientific = format!("{number:.precision$e}");
    let (mantissa, exponent) = scientific.split_once('e').expect("the format has an exponent");
    let exponent: i32 = exponent.parse().expect("an exponent is a number");
    if !(-4..digits).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", shorter(mantissa), exponent.abs());
    }
    let decimals = usize::try_from(digits - 1 - exponent).unwrap_or(0);
    shorter(&format!("{number:.decimals$}"))
}

fn write_text(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in bytes {
        match byte {
            b'"' | b'\\' | b'/' => out.extend([b'\\', *byte]),
            8 => out.extend(b"\\b"),
            9 => out.extend(b"\\t"),
            10 => out.extend(b"\\n"),
            12 => out.extend(b"\\f"),
            13 => out.extend(b"\\r"),
            0..=31 | 127 => out.extend(format!("\\u{byte:04x}").bytes()),
            _ => out.push(*byte),
        }
    }
    out.push(b'"');
}

fn write(value: &Value, out: &mut Vec<u8>, depth: usize) -> Result<()> {
    if depth > MAX_DEPTH {
        return Err(Error::runtime("Cannot serialise, excessive depth (1001)"));
    }
    match value {
        Value::Nil | Value::LightUserData(_) => out.extend(b"null"),
        Value::Boolean(is_true) => out.extend(is_true.to_string().bytes()),
        Value::Integer(integer) => out.extend(number(*integer as f64, 14).bytes()),
        Value::Number(float) if float.is_finite() => out.extend(number(*float, 14).bytes()),
        Value::Number(_) => return Err(Error::runtime("Cannot serialise number: must not be NaN or Inf")),
        Value::String(text) => write_text(&text.as_bytes(), out),
        Value::Table(table) if table.raw_len() > 0 => {
            for at in 1..=table.raw_len() {
                out.push(if at == 1 { b'[' } else { b',' });
                write(&table.raw_get(at)?, out, depth + 1)?;
            }
            out.push(b']');
        }
        Value::Table(table) => {
            out.push(b'{');
            let pairs = table.pairs::<mlua::LuaString, Value>();
            let pairs: Result<BTreeMap<Vec<u8>, Value>> =
                pairs.map(|pair| pair.map(|(name, value)| (name.as_bytes().to_vec(), value))).collect();
            for (at, (name, value)) in pairs?.into_iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write_text(&name, out);
                out.push(b':');
                write(&value, out, depth + 1)?;
            }
            out.push(b'}');
        }
        _ => return Err(Error::runtime("Cannot serialise: type not supported")),
    }
    Ok(())
}

/// Reads JSON as strictly as lua-cjson does, which is not very: it takes hexadecimal, `inf` and `nan` for numbers.
struct Reader<'a> {
    lua: &'a Lua,
    text: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn expected(&self, what: &str) -> Error {
        Error::runtime(format!("Expected {what} but found invalid token at character {}", self.at + 1))
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Whether this byte comes next, after space; then it is passed.
    fn passes(&mut self, byte: u8) -> bool {
        self.skip_space();
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn value(&mut self, depth: usize) -> Result<Value> {
        if depth > MAX_DEPTH {
            return Err(Error::runtime("Found too many nested data structures (1001)"));
        }
        if self.passes(b'"') {
            return self.text().and_then(|text| self.lua.create_string(&text)).map(Value::String);
        }
        if self.passes(b'[') {
            return self.array(depth);
        }
        if self.passes(b'{') {
            return self.object(depth);
        }
        for (word, value) in [("null", Value::NULL), ("true", Value::Boolean(true)), ("false", Value::Boolean(false))] {
            if self.text[self.at..].starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(value);
            }
        }
        self.number()
    }

    fn array(&mut self, depth: usize) -> Result<Value> {
        let array = self.lua.create_table()?;
        if self.passes(b']') {
            return Ok(Value::Table(array));
        }
        for at in 1.. {
            array.raw_set(at, self.value(depth + 1)?)?;
            if self.passes(b']') {
                break;
            }
            if !self.passes(b',') {
                return Err(self.expected("comma or array end"));
            }
        }
        Ok(Value::Table(array))
    }

    fn object(&mut self, depth: usize) -> Result<Value> {
        let object = self.lua.create_table()?;
        if self.passes(b'}') {
            return Ok(Value::Table(object));
        }
        loop {
            if !self.passes(b'"') {
                return Err(self.expected("object key string"));
            }
            let key = self.text()?;
            if !self.passes(b':') {
                return Err(self.expected("colon"));
            }
            object.raw_set(self.lua.create_string(&key)?, self.value(depth + 1)?)?;
            if self.passes(b'}') {
                return Ok(Value::Table(object));
            }
            if !self.passes(b',') {
                return Err(self.expected("comma or object end"));
            }
        }
    }

    fn number(&mut self) -> Result<Value> {
        let rest = &self.text[self.at..];
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
        let end = rest.iter().position(|byte| !is_part(byte)).unwrap_or(rest.len());
        let word = String::from_utf8_lossy(&rest[..end]).to_ascii_lowercase();
        let number = match word.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok().map(|number| number as f64),
            None if word.starts_with('+') => None,
            None => word.parse().ok(),
        };
        let number: f64 = number.ok_or_else(|| self.expected("value"))?;
        self.at += end;
        // Whole ones are integers in Lua 5.4.
        let is_integer = number == number.trunc() && number.abs() < 2f64.powi(63);
        Ok(if is_integer { Value::Integer(number as i64) } else { Value::Number(number) })
    }

    /// Four hexadecimal digits.
    fn unit(&mut self) -> Result<u32> {
        let digits = self.text.get(self.at..self.at + 4).and_then(|digits| std::str::from_utf8(digits).ok());
        let unit = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let unit = unit.ok_or_else(|| self.expected("unicode escape"))?;
        self.at += 4;
        Ok(unit)
    }

    /// The rest of a text whose first quote was passed.
    fn text(&mut self) -> Result<Vec<u8>> {
        let mut text = Vec::new();
        loop {
            let byte = self.peek().ok_or_else(|| self.expected("string end"))?;
            self.at += 1;
            match byte {
                b'"' => return Ok(text),
                b'\\' => self.escape(&mut text)?,
                _ => text.push(byte),
            }
        }
    }

    fn escape(&mut self, text: &mut Vec<u8>) -> Result<()> {
        let byte = self.peek().ok_or_else(|| self.expected("escape"))?;
        self.at += 1;
        text.push(match byte {
            b'"' | b'\\' | b'/' => byte,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let mut code = self.unit()?;
                if (0xD800..0xDC00).contains(&code) && self.text[self.at..].starts_with(b"\\u") {
                    self.at += 2;
                    code = 0x10000 + ((code - 0xD800) << 10) + (self.unit()?.wrapping_sub(0xDC00) & 0x3FF);
                }
                let code = char::from_u32(code).ok_or_else(|| self.expected("unicode"))?;
                text.extend(code.encode_utf8(&mut [0; 4]).bytes());
                return Ok(());
            }
            _ => return Err(self.expected("escape")),
        });
        Ok(())
    }
}
