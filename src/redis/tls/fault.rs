//! What went wrong with TLS, in words.

use std::io;

use rustls::{AlertDescription, CertificateError, Error, OtherError};

use crate::error::TlsFault;

/// What an error of a socket says about TLS, if it does.
pub(crate) fn fault(error: &io::Error) -> Option<(TlsFault, String)> {
    let error = error.get_ref()?.downcast_ref::<Error>()?;
    Some(match error {
        // A bad signature is that of a CA with the same name and another key.
        Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            (TlsFault::UnknownCa, "no CA that is trusted here signed the server's certificate".to_owned())
        }
        Error::InvalidCertificate(CertificateError::NotValidForNameContext { expected, presented }) => {
            (TlsFault::OtherHost, other_host(&expected.to_str(), presented))
        }
        Error::InvalidCertificate(CertificateError::ExpiredContext { .. } | CertificateError::Expired) => {
            (TlsFault::Certificate, "the server's certificate has expired".to_owned())
        }
        Error::InvalidCertificate(CertificateError::NotValidYetContext { .. } | CertificateError::NotValidYet) => {
            (TlsFault::Certificate, "the server's certificate is not valid yet by the clock of this machine".to_owned())
        }
        // How rustls' verifier names it: its type is not public there.
        Error::InvalidCertificate(CertificateError::Other(OtherError(why)))
            if format!("{why:?}") == "CaUsedAsEndEntity" =>
        {
            let what = "the server's certificate is that of a CA, as self-signed ones are, and not of a server";
            (TlsFault::Certificate, what.to_owned())
        }
        Error::InvalidCertificate(other) => (TlsFault::Certificate, format!("the server's certificate: {other}")),
        Error::AlertReceived(AlertDescription::CertificateRequired) => {
            (TlsFault::WantsCertificate, "the server demands a client certificate".to_owned())
        }
        // What servers with TLS 1.2 say to a client without a certificate, and not only then.
        Error::AlertReceived(AlertDescription::HandshakeFailure) => (
            TlsFault::WantsCertificate,
            "the server refused the handshake; it may demand a client certificate".to_owned(),
        ),
        Error::AlertReceived(
            alert @ (AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateUnknown
            | AlertDescription::AccessDenied
            | AlertDescription::DecryptError),
        ) => (TlsFault::RefusesCertificate, format!("the server refused the client certificate: {}", name(*alert))),
        Error::AlertReceived(alert) => (TlsFault::Other, format!("the server refused: {}", name(*alert))),
        Error::InvalidMessage(_) => (TlsFault::NoTls, "the server does not speak TLS at this port".to_owned()),
        other => (TlsFault::Other, other.to_string()),
    })
}

fn other_host(expected: &str, presented: &[String]) -> String {
    // As rustls has them: `DnsName("a.example")`, `IpAddress(10.0.0.5)`.
    let names: Vec<&str> = presented
        .iter()
        .map(|name| {
            name.split_once('(').map_or(name.as_str(), |(_, rest)| rest.trim_end_matches(')').trim_matches('"'))
        })
        .collect();
    match names.is_empty() {
        true => format!("the server's certificate names no host (subjectAltName), so not `{expected}` either"),
        false => format!("the server's certificate is for `{}`, not for `{expected}`", names.join("`, `")),
    }
}

/// An alert as specifications write it: `certificate_unknown`.
fn name(alert: AlertDescription) -> String {
    let mut name = String::new();
    let mut was_lower = false;
    for letter in format!("{alert:?}").chars() {
        if was_lower && letter.is_ascii_uppercase() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
        was_lower = letter.is_ascii_lowercase();
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alerts_are_named_as_specifications_name_them() {
        assert_eq!(name(AlertDescription::CertificateUnknown), "certificate_unknown");
        assert_eq!(name(AlertDescription::UnknownCA), "unknown_ca");
    }

    #[test]
    fn a_wrong_host_is_shown_with_the_names_of_the_certificate() {
        let presented = ["DnsName(\"a.example\")".to_owned(), "IpAddress(10.0.0.5)".to_owned()];
        let expected = "the server's certificate is for `a.example`, `10.0.0.5`, not for `b`";
        assert_eq!(other_host("b", &presented), expected);
        assert!(other_host("b", &[]).contains("names no host"));
    }
}
