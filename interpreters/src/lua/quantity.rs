//! A quantity in a value of Lua, where every number is a float. Kubernetes accepts a number as a quantity, and spaces
//! around a text, too.

use std::fmt;

use api::quantity::{Amount, ParseQuantityError};
use serde::de::Visitor;
use serde::{Deserialize, Deserializer};

/// The text of a quantity.
#[derive(Clone)]
pub(super) struct LuaQuantity(String);

impl LuaQuantity {
    pub(super) fn amount(&self) -> Result<Amount, ParseQuantityError> {
        self.0.parse()
    }
}

impl<'de> Deserialize<'de> for LuaQuantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberOrText;
        impl Visitor<'_> for NumberOrText {
            type Value = LuaQuantity;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity: a string or a number")
            }

            fn visit_str<E>(self, text: &str) -> Result<LuaQuantity, E> {
                Ok(LuaQuantity(text.trim_matches(' ').to_owned()))
            }

            fn visit_i64<E>(self, number: i64) -> Result<LuaQuantity, E> {
                Ok(LuaQuantity(number.to_string()))
            }

            fn visit_u64<E>(self, number: u64) -> Result<LuaQuantity, E> {
                Ok(LuaQuantity(number.to_string()))
            }

            fn visit_f64<E>(self, number: f64) -> Result<LuaQuantity, E> {
                Ok(LuaQuantity(number.to_string()))
            }
        }
        deserializer.deserialize_any(NumberOrText)
    }
}
