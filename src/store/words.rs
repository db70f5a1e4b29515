//! Enums that the database stores as words.

/// Defines an enum whose variants are stored as words.
macro_rules! words {
    ($(#[doc = $doc:literal])+ $name:ident { $($(#[doc = $of:literal])+ $variant:ident = $word:literal,)+ }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "lowercase")]
        pub enum $name {
            $($(#[doc = $of])+ $variant,)+
        }

        impl $name {
            /// Returns the word that the database and the API use.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl $crate::store::sql::FromSql for $name {
            fn column_result(value: $crate::store::sql::ValueRef<'_>) -> $crate::store::sql::FromSqlResult<Self> {
                match value.as_str()? {
                    $($word => Ok(Self::$variant),)+
                    _ => Err($crate::store::sql::FromSqlError::InvalidType),
                }
            }
        }

        impl $crate::store::sql::ToSql for $name {
            fn to_sql(&self) -> $crate::store::sql::ToSqlResult<'_> {
                Ok(self.as_str().into())
            }
        }
    };
}

pub(super) use words;
