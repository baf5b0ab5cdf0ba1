//! `#[derive(Equivalence)]`, which `mpi_over_am` exports beside the trait of that name. It generates safe code: references to the fields,
//! one after the other. Soundness therefore does not depend on this crate, which refuses unsuitable types only to give a clear message.
//!
//! ```
//! use mpi_over_am::{Environment, Equivalence, Result};
//!
//! #[derive(Equivalence, Default)]
//! struct Particle {
//!     charge: i8,
//!     position: [f64; 3],
//!     // Neither sent nor received.
//!     #[equivalence(skip)]
//!     name: String,
//! }
//!
//! # fn main() -> Result<()> {
//! let environment = Environment::init()?;
//! let world = environment.world();
//! let sending = world.isend_owned(vec![Particle { charge: -1, ..Particle::default() }], world.rank(), 0)?;
//! let (particle, status) = world.recv_value::<Particle>(world.rank(), 0)?;
//! // The padding between the fields is not sent.
//! assert_eq!((particle.charge, status.len()), (-1, 1 + 3 * 8));
//! sending.wait()?;
//! environment.finalize()
//! # }
//! ```

#![forbid(unsafe_code)]

use proc_macro::TokenStream;
use proc_macro2::{Span, TokenStream as Tokens};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Attribute, Data, DeriveInput, Error, Field, GenericParam, Index, Result, Type};

/// Implements the trait `mpi_over_am::Equivalence` for a struct, so that its fields are elements of messages.
#[proc_macro_derive(Equivalence, attributes(equivalence))]
pub fn equivalence(input: TokenStream) -> TokenStream {
    syn::parse(input)
        .and_then(|input| implement(&input))
        .unwrap_or_else(|error| error.to_compile_error())
        .into()
}

/// The implementation of the trait for a struct.
///
/// # Errors
/// Each field or type that cannot be sent, with its location and what to do about it. All errors of the fields are reported together.
fn implement(input: &DeriveInput) -> Result<Tokens> {
    let name = &input.ident;
    let fields = match &input.data {
        Data::Struct(data) => &data.fields,
        Data::Enum(_) => return Err(Error::new_spanned(name, ENUM)),
        Data::Union(_) => return Err(Error::new_spanned(name, UNION)),
    };
    check_layout(input)?;
    if let Some(lifetime) = input.generics.lifetimes().next() {
        return Err(Error::new_spanned(lifetime, REFERENCE));
    }
    let mut refused = None::<Error>;
    let (mut shared, mut exclusive) = (Tokens::new(), Tokens::new());
    for (index, field) in fields.iter().enumerate() {
        match sent_type(field) {
            Ok(None) => {}
            Ok(Some(span)) => {
                let member = member(index, field);
                shared.extend(quote_spanned!(span=> list.add(&self.#member);));
                exclusive.extend(quote_spanned!(span=> list.add(&mut self.#member);));
            }
            Err(error) => match &mut refused {
                Some(first) => first.combine(error),
                None => refused = Some(error),
            },
        }
    }
    if let Some(error) = refused {
        return Err(error);
    }
    let mut generics = input.generics.clone();
    for parameter in &mut generics.params {
        if let GenericParam::Type(parameter) = parameter {
            parameter.bounds.push(syn::parse_quote!(::mpi_over_am::Equivalence));
        }
    }
    let (parameters, arguments, conditions) = generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        #[allow(unused_variables, reason = "a struct may have no field")]
        impl #parameters ::mpi_over_am::Equivalence for #name #arguments #conditions {
            fn list<'fields>(&'fields self, list: &mut ::mpi_over_am::FieldList<'fields>) {
                #shared
            }

            fn list_mut<'fields>(&'fields mut self, list: &mut ::mpi_over_am::FieldListMut<'fields>) {
                #exclusive
            }
        }
    })
}

const ENUM: &str = "an enum cannot derive `Equivalence`: its fields depend on its value. Send a number instead, or implement the trait \
                    by hand, which needs no `unsafe`";
const UNION: &str =
    "a union cannot derive `Equivalence`: it is not known which of its fields is valid. Send a struct";
const PACKED: &str = "a packed struct cannot derive `Equivalence`: its fields may be unaligned, and references to them are not allowed. Remove `packed`: \
                      padding is not sent anyway";
const REFERENCE: &str = "references and pointers cannot be sent: an address means nothing to another task. Send the value itself, or leave the \
                         field out with `#[equivalence(skip)]`";
const UNKNOWN: &str = "the only option is `skip`: the field is neither sent nor received";

/// Refuses packed layouts, whose fields cannot be referenced. All other layouts are accepted: fields are sent in the order of their
/// declaration.
fn check_layout(input: &DeriveInput) -> Result<()> {
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("repr")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("packed") {
                return Err(Error::new_spanned(&meta.path, PACKED));
            }
            // Skips the number in `align(16)`.
            if meta.input.peek(syn::token::Paren) {
                meta.input.parse::<proc_macro2::TokenTree>()?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// The span of a field's type, if the field is sent.
fn sent_type(field: &Field) -> Result<Option<Span>> {
    let mut is_sent = true;
    for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("equivalence")) {
        is_sent &= !is_skip(attribute)?;
    }
    if !is_sent {
        return Ok(None);
    }
    check_type(&field.ty)?;
    Ok(Some(field.ty.span()))
}

fn is_skip(attribute: &Attribute) -> Result<bool> {
    let word: syn::Path = attribute.parse_args()?;
    if word.is_ident("skip") { Ok(true) } else { Err(Error::new_spanned(word, UNKNOWN)) }
}

/// Refuses references and pointers, also inside arrays. The trait decides about all other types.
fn check_type(kind: &Type) -> Result<()> {
    match kind {
        Type::Reference(_) | Type::Ptr(_) | Type::FnPtr(_) => Err(Error::new_spanned(kind, REFERENCE)),
        Type::Array(array) => check_type(&array.elem),
        Type::Paren(inner) => check_type(&inner.elem),
        Type::Group(inner) => check_type(&inner.elem),
        _ => Ok(()),
    }
}

/// The name of a field.
fn member(index: usize, field: &Field) -> Tokens {
    match &field.ident {
        Some(name) => quote!(#name),
        None => {
            let index = Index::from(index);
            quote!(#index)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn derived(source: &str) -> std::result::Result<String, String> {
        let input = syn::parse_str(source).expect("the test's own text is Rust");
        implement(&input)
            .map(|tokens| tokens.to_string())
            .map_err(|error| error.into_iter().map(|one| one.to_string()).collect::<Vec<_>>().join("\n"))
    }

    #[test]
    fn what_cannot_be_sent_is_refused_in_words() {
        for (source, texts) in [
            ("#[repr(C, packed)] struct A { a: u8 }", &[PACKED][..]),
            ("#[repr(C)] #[repr(packed(2))] struct A(u32);", &[PACKED]),
            ("#[repr(C)] enum A { B(u8), C }", &[ENUM]),
            ("#[repr(u8)] enum A { B, C }", &[ENUM]),
            ("#[repr(C)] union A { b: u8, c: u16 }", &[UNION]),
            ("#[repr(C)] struct A<'a> { a: &'a u8 }", &[REFERENCE]),
            ("#[repr(C)] struct A { a: &'static u8, b: u8, c: *const u8 }", &[REFERENCE, REFERENCE]),
            ("#[repr(C)] struct A([(*mut u8); 3], fn(u8));", &[REFERENCE, REFERENCE]),
            ("#[repr(C)] struct A { #[equivalence(leave)] a: u8 }", &[UNKNOWN]),
        ] {
            assert_eq!(derived(source), Err(texts.join("\n")), "{source}");
        }
    }

    #[test]
    fn all_fields_but_those_left_out_are_listed_in_their_order() {
        for (source, fields) in [
            ("struct A;", &[][..]),
            ("#[repr(C)] struct A { b: u8, a: [Other; 2] }", &["b", "a"]),
            ("#[repr(align(16))] struct A(u8, #[equivalence(skip)] String, f64);", &["0", "2"]),
            ("#[repr(transparent)] struct A<T: Copy, const N: usize>([T; N]) where T: Send;", &["0"]),
            ("#[repr(C)] struct A { #[equivalence(skip)] a: &'static str, r#type: u8 }", &["r#type"]),
        ] {
            let made = derived(source).expect(source);
            let added: Vec<_> = made
                .split("list . add (& self . ")
                .skip(1)
                .map(|rest| rest.split(')').next().unwrap_or_default().trim())
                .collect();
            assert_eq!(added, fields, "{made}");
            assert_eq!(made.matches("list . add (& mut self . ").count(), fields.len(), "{made}");
        }
    }
}
