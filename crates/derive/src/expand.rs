//! The implementation of `Tree` for a type.

use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};
use syn::{
    Attribute, Data, DeriveInput, Error, Field, Fields, Generics, Ident, Index, Path, Result,
    WherePredicate, parse_quote, spanned::Spanned,
};

/// The implementation, or what is wrong with the type.
pub(crate) fn tree(input: &DeriveInput) -> Result<TokenStream> {
    let home = home(&input.attrs)?;
    let variants = variants(input)?;
    let name = &input.ident;
    let generics = bounded(&input.generics, &variants, &home);
    let (impl_generics, types, bounds) = generics.split_for_impl();
    let visits = variants.iter().map(|variant| variant.visit(&home));
    let rebuilds = variants.iter().map(|variant| variant.rebuild(&home));
    Ok(quote! {
        #[automatically_derived]
        impl #impl_generics #home::Tree for #name #types #bounds {
            fn visit<'array>(
                &'array self,
                path: &#home::transforms::tree::Path<'_>,
                visit: &mut #home::transforms::tree::Visitor<'_, 'array>,
            ) {
                match *self { #(#visits)* }
            }

            fn rebuild(
                &self,
                path: &#home::transforms::tree::Path<'_>,
                rebuild: &mut #home::transforms::tree::Rebuilder<'_>,
            ) -> #home::Result<Self> {
                ::core::result::Result::Ok(match *self { #(#rebuilds)* })
            }
        }
    })
}

/// A struct, or a variant of an enum.
struct Variant<'a> {
    /// `Self`, or `Self::Name`.
    constructor: TokenStream,
    fields: Vec<Part<'a>>,
}

/// A field.
struct Part<'a> {
    field: &'a Field,
    index: usize,
    /// Its name, or its index in a tuple.
    member: TokenStream,
    /// The variable that it is bound to.
    variable: Ident,
    is_skipped: bool,
}

fn variants(input: &DeriveInput) -> Result<Vec<Variant<'_>>> {
    match &input.data {
        Data::Struct(data) => Ok(vec![Variant::new(quote!(Self), &data.fields)?]),
        Data::Enum(data) => {
            let variant = |variant: &'_ syn::Variant| {
                refuse_all(&variant.attrs)?;
                Ok(variant.ident.clone())
            };
            let names: Vec<Ident> = data.variants.iter().map(variant).collect::<Result<_>>()?;
            let each = data.variants.iter().zip(names);
            each.map(|(variant, name)| Variant::new(quote!(Self::#name), &variant.fields)).collect()
        }
        Data::Union(data) => Err(Error::new(
            data.union_token.span(),
            "`Tree` cannot be derived for a union: nobody knows which field holds its arrays",
        )),
    }
}

impl<'a> Variant<'a> {
    fn new(constructor: TokenStream, fields: &'a Fields) -> Result<Self> {
        let parts = fields.iter().enumerate().map(|(index, field)| Part::new(index, field));
        Ok(Variant { constructor, fields: parts.collect::<Result<_>>()? })
    }

    /// The arm of a match that visits the fields.
    fn visit(&self, home: &Path) -> TokenStream {
        let constructor = &self.constructor;
        let trees = || self.fields.iter().filter(|part| !part.is_skipped);
        let bindings = trees().map(Part::binding);
        let visits = trees().map(|part| {
            let (variable, path) = (&part.variable, part.path());
            quote!(#home::Tree::visit(#variable, &#path, visit);)
        });
        quote!(#constructor { #(#bindings,)* .. } => { #(#visits)* })
    }

    /// The arm of a match that makes the variant anew.
    fn rebuild(&self, home: &Path) -> TokenStream {
        let constructor = &self.constructor;
        let bindings = self.fields.iter().map(Part::binding);
        let fields = self.fields.iter().map(|part| {
            let Part { member, variable, .. } = part;
            let path = part.path();
            match part.is_skipped {
                true => quote!(#member: ::core::clone::Clone::clone(#variable)),
                false => quote!(#member: #home::Tree::rebuild(#variable, &#path, rebuild)?),
            }
        });
        quote!(#constructor { #(#bindings),* } => #constructor { #(#fields),* },)
    }
}

impl<'a> Part<'a> {
    fn new(index: usize, field: &'a Field) -> Result<Self> {
        let member = match &field.ident {
            Some(name) => name.to_token_stream(),
            None => Index::from(index).to_token_stream(),
        };
        let variable = format_ident!("field_{index}");
        Ok(Part { field, index, member, variable, is_skipped: is_skipped(&field.attrs)? })
    }

    fn binding(&self) -> TokenStream {
        let Part { member, variable, .. } = self;
        quote!(#member: ref #variable)
    }

    /// Where the field lies below `path`.
    fn path(&self) -> TokenStream {
        let index = self.index;
        match &self.field.ident {
            Some(name) => {
                let name = name.to_string();
                let name = name.trim_start_matches("r#");
                quote!(path.field(#index, #name))
            }
            None => quote!(path.element(#index)),
        }
    }
}

/// The generics, with what the fields' types must be where they depend on parameters.
fn bounded(generics: &Generics, variants: &[Variant<'_>], home: &Path) -> Generics {
    let mut generics = generics.clone();
    let parameters: Vec<Ident> = generics.type_params().map(|p| p.ident.clone()).collect();
    let parts = variants.iter().flat_map(|variant| &variant.fields);
    let depending = parts.filter(|part| mentions(&part.field.ty.to_token_stream(), &parameters));
    let bounds: Vec<WherePredicate> = depending
        .map(|part| {
            let of = &part.field.ty;
            match part.is_skipped {
                true => parse_quote!(#of: ::core::clone::Clone),
                false => parse_quote!(#of: #home::Tree),
            }
        })
        .collect();
    if !bounds.is_empty() {
        generics.make_where_clause().predicates.extend(bounds);
    }
    generics
}

/// Whether one of the names stands in the tokens.
fn mentions(tokens: &TokenStream, names: &[Ident]) -> bool {
    tokens.clone().into_iter().any(|token| match token {
        TokenTree::Ident(name) => names.contains(&name),
        TokenTree::Group(group) => mentions(&group.stream(), names),
        TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}

/// The crate that has `Tree`.
fn home(attributes: &[Attribute]) -> Result<Path> {
    let mut home = parse_quote!(::mlx);
    for attribute in attributes.iter().filter(|a| a.path().is_ident("tree")) {
        attribute.parse_nested_meta(|meta| match meta.path.is_ident("crate") {
            true => {
                home = meta.value()?.call(Path::parse_mod_style)?;
                Ok(())
            }
            false => Err(meta.error("a type takes `#[tree(crate = path)]` alone")),
        })?;
    }
    Ok(home)
}

fn is_skipped(attributes: &[Attribute]) -> Result<bool> {
    let mut skip = false;
    for attribute in attributes.iter().filter(|a| a.path().is_ident("tree")) {
        attribute.parse_nested_meta(|meta| match meta.path.is_ident("skip") {
            true => {
                skip = true;
                Ok(())
            }
            false => Err(meta.error("a field takes `#[tree(skip)]` alone")),
        })?;
    }
    Ok(skip)
}

fn refuse_all(attributes: &[Attribute]) -> Result<()> {
    match attributes.iter().find(|attribute| attribute.path().is_ident("tree")) {
        Some(attribute) => Err(Error::new(attribute.span(), "a variant takes no `#[tree]`")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(input: DeriveInput) -> String {
        tree(&input).unwrap_err().to_string()
    }

    #[test]
    fn what_cannot_be_derived_is_named() {
        let union = refusal(parse_quote!(union U { a: u8, b: i8 }));
        assert!(union.contains("cannot be derived for a union"), "{union}");
        let field = refusal(parse_quote!(
            struct S {
                #[tree(skp)]
                a: u8,
            }
        ));
        assert_eq!(field, "a field takes `#[tree(skip)]` alone");
        let variant = refusal(parse_quote!(
            enum E {
                #[tree(skip)]
                A,
            }
        ));
        assert_eq!(variant, "a variant takes no `#[tree]`");
        let of_type = refusal(parse_quote!(
            #[tree(skip)]
            struct S;
        ));
        assert_eq!(of_type, "a type takes `#[tree(crate = path)]` alone");
    }

    #[test]
    fn only_fields_that_depend_on_parameters_are_bounded() {
        let input = parse_quote!(
            struct S<T, U, const N: usize>
            where
                U: Copy,
            {
                a: [T; N],
                b: Array,
                #[tree(skip)]
                c: Option<U>,
            }
        );
        let expanded = tree(&input).unwrap().to_string();
        let squeezed = expanded.replace(' ', "");
        let bounds = "whereU:Copy,[T;N]:::mlx::Tree,Option<U>:::core::clone::Clone{";
        assert!(squeezed.contains(bounds), "{expanded}");
    }

    #[test]
    fn the_crate_can_be_named() {
        let input = parse_quote!(
            #[tree(crate = crate)]
            struct S {
                a: Array,
            }
        );
        let expanded = tree(&input).unwrap().to_string();
        assert!(expanded.contains("crate :: Tree") && !expanded.contains("mlx"), "{expanded}");
    }
}
