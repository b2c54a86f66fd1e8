//! The library `kube` of Karmada's customizations: quantities, and what a Pod template needs.

mod dependencies;
mod requirements;

use api::Quantity;
use api::decode::Strict;
use api::quantity::Amount;
use mlua::{Lua, MultiValue, Table, Value};
use serde::de::{DeserializeOwned, DeserializeSeed};
use serde_json::Value as Json;

use super::library::{argument_error, budget, ended, fail};
use super::numbers;
use super::values::{JsonReader, LuaSeed};

/// Memory of a Pod template, in bytes.
const TEMPLATE_MAX: usize = 16 << 20;
/// Longest name of a namespace, in bytes.
const NAMESPACE_MAX: usize = 63;
/// Longest text of a quantity, in bytes.
const QUANTITY_MAX: usize = 64;
/// Instructions that each argument of a function counts as.
const WORK: u64 = 20;
/// Instructions that a Pod template counts as.
const TEMPLATE_WORK: u64 = 10_000;

/// Returns the functions of the library.
pub(super) fn library(lua: &Lua) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    library.raw_set(
        "resourceAdd",
        lua.create_function(|lua, given: MultiValue| resource_add(lua, &given))?,
    )?;
    let quantity = lua.create_function(|lua, given: MultiValue| resource_quantity(lua, &given))?;
    library.raw_set("getResourceQuantity", quantity)?;
    let requirements =
        lua.create_function(|lua, given: MultiValue| pod_requirements(lua, &given))?;
    library.raw_set("accuratePodRequirements", requirements)?;
    let dependencies =
        lua.create_function(|lua, given: MultiValue| pod_dependencies(lua, &given))?;
    library.raw_set("getPodDependencies", dependencies)?;
    Ok(library)
}

/// Returns the sum of quantities. `nil` is 0.
fn resource_add(lua: &Lua, quantities: &MultiValue) -> mlua::Result<String> {
    let mut sum = Amount::ZERO;
    for (index, quantity) in quantities.iter().enumerate() {
        sum = sum.saturating_add(amount(lua, "resourceAdd", index + 1, quantity)?);
    }
    Ok(sum.to_string())
}

/// Returns a quantity as a number.
fn resource_quantity(lua: &Lua, arguments: &MultiValue) -> mlua::Result<f64> {
    const NAME: &str = "getResourceQuantity";
    let [quantity] = exactly(lua, NAME, arguments)?;
    let amount = amount(lua, NAME, 1, quantity)?;
    #[expect(clippy::cast_precision_loss, reason = "the result is approximate")]
    let number = amount.nanos() as f64 / api::quantity::NANOS as f64;
    if number < 0.0 {
        return Err(fail(lua, format_args!("{NAME}: {amount} is negative")));
    }
    Ok(number)
}

/// Returns what one Pod of a template needs.
fn pod_requirements(lua: &Lua, arguments: &MultiValue) -> mlua::Result<Value> {
    const NAME: &str = "accuratePodRequirements";
    let [template] = exactly(lua, NAME, arguments)?;
    let template = pod_template(lua, NAME, template)?;
    let requirements = requirements::of_template(&template);
    let requirements = requirements.map_err(|error| fail(lua, format_args!("{NAME}: {error}")))?;
    requirements.map_or(Ok(Value::Nil), |requirements| to_lua(lua, &requirements))
}

/// Returns the objects that a Pod of a template uses.
fn pod_dependencies(lua: &Lua, arguments: &MultiValue) -> mlua::Result<Value> {
    const NAME: &str = "getPodDependencies";
    const DEFAULT_NAMESPACE: &str = "default";
    let [template, namespace] = exactly(lua, NAME, arguments)?;
    let template = pod_template(lua, NAME, template)?;
    let namespace = match namespace {
        Value::Nil => DEFAULT_NAMESPACE.to_owned(),
        Value::String(text) => text.to_string_lossy(),
        other => {
            numbers::text(other).ok_or_else(|| argument_error(lua, NAME, 2, "string", other))?
        }
    };
    if namespace.len() > NAMESPACE_MAX {
        // Each dependency repeats the namespace.
        let problem = format_args!("{NAME}: the namespace has more than {NAMESPACE_MAX} bytes");
        return Err(fail(lua, problem));
    }
    let dependencies = dependencies::of_template(&template, &namespace);
    match dependencies.is_empty() {
        true => Ok(Value::Nil),
        false => to_lua(lua, &Json::Array(dependencies)),
    }
}

fn to_lua(lua: &Lua, json: &Json) -> mlua::Result<Value> {
    let value = LuaSeed(lua, &*budget(lua)?).deserialize(json);
    value.map_err(|error| fail(lua, error))
}

fn exactly<'a, const N: usize>(
    lua: &Lua,
    function: &str,
    arguments: &'a MultiValue,
) -> mlua::Result<[&'a Value; N]> {
    let arguments: Vec<_> = arguments.iter().collect();
    let given = arguments.len();
    <[&Value; N]>::try_from(arguments).map_err(|_| {
        let problem = format_args!("{function} takes {N} arguments, {given} are given");
        fail(lua, problem)
    })
}

fn amount(lua: &Lua, function: &str, index: usize, quantity: &Value) -> mlua::Result<Amount> {
    budget(lua)?.spend(WORK).map_err(ended)?;
    match quantity {
        Value::Nil => Ok(Amount::ZERO),
        Value::String(text) if text.as_bytes().len() > QUANTITY_MAX => {
            let problem = format_args!("{function}: a quantity has more than {QUANTITY_MAX} bytes");
            Err(fail(lua, problem))
        }
        Value::String(text) => {
            let amount = Quantity(text.to_string_lossy()).amount();
            amount.map_err(|error| fail(lua, format_args!("{function}: {error}")))
        }
        other => Err(argument_error(lua, function, index, "string", other)),
    }
}

/// Reads a Pod template. Empty tables are absent, because Lua does not know whether they are lists or objects.
fn pod_template<T: DeserializeOwned>(
    lua: &Lua,
    function: &str,
    template: &Value,
) -> mlua::Result<T> {
    let Value::Table(template) = template else {
        return Err(argument_error(lua, function, 1, "table", template));
    };
    budget(lua)?.spend(TEMPLATE_WORK).map_err(ended)?;
    let json = JsonReader::read_object(template, TEMPLATE_MAX, &[]).map_err(|error| {
        let (path, problem) = (error.path, error.problem);
        fail(
            lua,
            format_args!("{function}: the template{path} {problem}"),
        )
    })?;
    let decoded = serde_path_to_error::deserialize(json);
    decoded
        .map(|Strict(template)| template)
        .map_err(|error| fail(lua, format_args!("{function}: the template: {error}")))
}
