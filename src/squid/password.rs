//! Passwords of basic authentication: hashed here, before they leave the provider, and verified by
//! Squid's `basic_ncsa_auth` through crypt(3).
//!
//! It must not know where the password file goes. Invariants: no error holds a password or a hash;
//! what [`hash`] returns passes [`check_hash`].

use sha_crypt::{PasswordHasher as _, ShaCrypt};

use super::policy::Username;
use crate::contract::Secret;

/// The longest password: crypt(3) of every C library takes this many bytes.
const LONGEST_PASSWORD: usize = 256;
/// The longest hash; yescrypt's with the largest parameters is half of it.
const LONGEST_HASH: usize = 256;
/// Bytes of salt; crypt(3) takes 16 characters, which hold 12 bytes.
const SALT: usize = 12;

/// The methods of crypt(3) whose hashes `basic_ncsa_auth` verifies. `$apr1$` and `$1$` it knows
/// itself, the rest the system's libcrypt does.
const METHODS: [&str; 7] = ["$6$", "$5$", "$y$", "$2y$", "$2b$", "$apr1$", "$1$"];

/// Why a password or a hash cannot be used. It never says which.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPassword {
    /// It has no characters.
    #[error("the password is empty")]
    Empty,
    /// More than [`LONGEST_PASSWORD`] bytes.
    #[error("the password is longer than 256 bytes, which is the most that crypt(3) takes everywhere")]
    TooLong,
    /// Basic authentication cannot carry it.
    #[error("the password holds a control character, which HTTP basic authentication cannot carry")]
    ControlCharacter,
    /// Not a hash, or none that can be verified.
    #[error(
        "access.password_hash must be a crypt(3) hash that starts with $6$, $5$, $y$, $2y$, $2b$, $apr1$ or $1$ and has no blank or colon: make one with `openssl passwd -6`"
    )]
    NotAHash,
    /// The system gave no random bytes for the salt.
    #[error("the system gave no random bytes for the password's salt")]
    NoRandomness,
}

/// Hashes a password with SHA-512 crypt (`$6$`) under a fresh salt.
///
/// # Errors
/// When the password cannot be sent by a client, or the system has no random bytes.
pub fn hash(password: &Secret) -> Result<Secret, InvalidPassword> {
    check(password)?;
    let plain = password.expose();
    let mut salt = [0; SALT];
    getrandom::fill(&mut salt).map_err(|_| InvalidPassword::NoRandomness)?;
    let hash = ShaCrypt::SHA512
        .hash_password_with_salt(plain.as_bytes(), &salt)
        .map_err(|_| InvalidPassword::NotAHash)?;
    Ok(Secret::new(hash.as_str()))
}

/// Whether a password can be sent by a client.
///
/// # Errors
/// When it cannot.
pub fn check(password: &Secret) -> Result<(), InvalidPassword> {
    let plain = password.expose();
    if plain.is_empty() {
        Err(InvalidPassword::Empty)
    } else if plain.len() > LONGEST_PASSWORD {
        Err(InvalidPassword::TooLong)
    } else if plain.chars().any(char::is_control) {
        Err(InvalidPassword::ControlCharacter)
    } else {
        Ok(())
    }
}

/// Whether a hash that a user gave can be verified by Squid.
///
/// # Errors
/// When it cannot; the text says how to make one that can.
pub fn check_hash(hash: &Secret) -> Result<(), InvalidPassword> {
    let text = hash.expose();
    let rest = METHODS.iter().find_map(|method| text.strip_prefix(method));
    // After the method there is at least a salt and, as its own part, the digest; bcrypt joins them.
    let sound = rest.is_some_and(|rest| {
        let bcrypt = text.starts_with("$2");
        text.len() <= LONGEST_HASH
            && rest.contains('$')
            && rest.rsplit('$').next().is_some_and(|digest| digest.len() >= 22)
            && (!bcrypt || text.len() == 60)
            && rest
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"./$=,+-_".contains(&byte))
    });
    if sound {
        Ok(())
    } else {
        Err(InvalidPassword::NotAHash)
    }
}

/// The password file of one user.
///
/// # Errors
/// When the hash could not be verified, or would be read as another line.
pub fn file(username: &Username, hash: &Secret) -> Result<Secret, InvalidPassword> {
    check_hash(hash)?;
    Ok(Secret::new(format!("{username}:{}\n", hash.expose())))
}

#[cfg(test)]
mod tests {
    use sha_crypt::PasswordVerifier as _;

    use super::*;

    #[test]
    fn a_hash_verifies_its_password_alone_and_has_a_salt_of_its_own() {
        let password = Secret::new("Passwort mit Ümlaut und : $");
        let one = hash(&password).expect("hashed");
        let other = hash(&password).expect("hashed");
        assert_ne!(one, other);
        for hash in [&one, &other] {
            assert!(hash.expose().starts_with("$6$"));
            assert_eq!(check_hash(hash), Ok(()));
            let parsed = sha_crypt::PasswordHash::new(hash.expose()).expect("a hash");
            let verify = |plain: &str| ShaCrypt::SHA512.verify_password(plain.as_bytes(), &parsed);
            assert!(verify(password.expose()).is_ok());
            assert!(verify("passwort").is_err());
        }
    }

    #[test]
    fn what_no_client_could_send_is_refused() {
        let long = "a".repeat(257);
        for (password, why) in [
            ("", InvalidPassword::Empty),
            ("a\nb", InvalidPassword::ControlCharacter),
            ("a\0b", InvalidPassword::ControlCharacter),
            (long.as_str(), InvalidPassword::TooLong),
        ] {
            assert_eq!(hash(&Secret::new(password)), Err(why));
        }
    }

    #[test]
    fn hashes_of_every_method_are_taken_and_nothing_else() {
        for good in [
            "$6$saltsalt$qFmFH.bQmmtXzyBY0s9v7Oicd2z4XSIecDzlB5KiA2/jctKu9YterLp8wwnSq.qc.eoxqOmSuNp2xS0ktL3nh/",
            "$6$rounds=10000$salt$qFmFH.bQmmtXzyBY0s9v7Oicd2z4XSIecDzlB5KiA2/jctKu9YterLp8wwnSq.qc.eoxqOmSuNp2xS0ktL3nh/",
            "$5$saltsalt$HrgUmMHRcrVkcOjFnKpTN9zpmVPwPzU4nhCuYG0f6dA",
            "$y$j9T$F5Jx5fExrKuPp53xLKQ..1$X3DX6M94c7o.9agCG9G317fhZg9SqC.5i5rd.RhAtQ7",
            "$2y$05$bvIG6Nmid91Mu9RcmmWZfO5HJIMCT8riNW0hEp8f6/FuA2/mHZFpe",
            "$apr1$salt$Xxd1irWT9ycqoYxGFn4cb.",
            "$1$salt$qJH7.N4xYta3aEG/dfqo/0",
        ] {
            assert_eq!(check_hash(&Secret::new(good)), Ok(()), "{good}");
        }
        for bad in [
            "",
            "plain",
            "$6$",
            "$6$salt",
            "$6$salt$short",
            "rl0uE6aMfaZrE",
            "{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=",
            "$argon2id$v=19$m=65536,t=3,p=4$c2FsdHNhbHQ$RdescudvJCsgt3ub+b4dWRWJTmaaJObG",
            "$6$sa:lt$qFmFH.bQmmtXzyBY0s9v7Oicd2z4XSIecDzlB5KiA2",
            "$6$salt$qFmFH.bQmmtXzyBY0s9v7Oicd2z4XSIecDzlB5KiA2\nroot:x",
            "$2y$05$tooshort.tooshort.tooshort",
        ] {
            let error = check_hash(&Secret::new(bad)).expect_err(bad);
            assert!(error.to_string().contains("openssl passwd -6"));
            assert!(
                bad.len() < 5 || !error.to_string().contains(bad),
                "the hash is not shown"
            );
        }
    }

    #[test]
    fn the_file_has_one_line() {
        let hash = hash(&Secret::new("pw")).expect("hashed");
        let user = "team".parse().expect("a user");
        let file = file(&user, &hash).expect("a file");
        assert_eq!(file.expose(), format!("team:{}\n", hash.expose()));
        assert_eq!(
            super::file(&user, &Secret::new("x\nroot:y")),
            Err(InvalidPassword::NotAHash)
        );
    }
}
