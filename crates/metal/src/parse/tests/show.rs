//! Prints what was read, so that tests can compare text.

use crate::ast::{
    BaseType, BinaryOperator, Declaration, Expression, ExpressionKind, Initial, Space, Statement,
    StatementKind, TemplateArgument, TypeName, UnaryOperator,
};

pub(super) fn joined<T>(list: &[T], show: impl Fn(&T) -> String) -> String {
    list.iter().map(show).collect::<Vec<_>>().join(", ")
}

fn arguments(list: &[TemplateArgument]) -> String {
    if list.is_empty() {
        return String::new();
    }
    let shown = joined(list, |argument| match argument {
        TemplateArgument::Type(ty) => type_name(ty),
        TemplateArgument::Value(value) => expression(value),
    });
    format!("<{shown}>")
}

pub(super) fn type_name(ty: &TypeName) -> String {
    let space = match ty.space {
        Some(Space::Device) => "device ",
        Some(Space::Constant) => "constant ",
        Some(Space::Threadgroup) => "threadgroup ",
        Some(Space::Thread) => "thread ",
        None => "",
    };
    let base = match &ty.base {
        BaseType::Auto => "auto".to_string(),
        BaseType::Named(name, template) => format!("{name}{}", arguments(template)),
        BaseType::Decltype(value) => format!("decltype({})", expression(value)),
    };
    let before = if ty.is_const { "const " } else { "" };
    let reference = if ty.is_reference { "&" } else { "" };
    format!("{space}{before}{base}{}{reference}", "*".repeat(ty.pointers as usize))
}

pub(super) fn declaration(variable: &Declaration) -> String {
    let mut shown = format!("{} {}", type_name(&variable.ty), variable.name);
    for size in &variable.array {
        shown += &format!("[{}]", size.as_ref().map(expression).unwrap_or_default());
    }
    if let Some(value) = &variable.value {
        shown += &format!(" = {}", initial(value));
    }
    shown
}

fn initial(value: &Initial) -> String {
    match value {
        Initial::Value(value) => expression(value),
        Initial::List(list) => format!("{{{}}}", joined(list, initial)),
    }
}

pub(super) fn statements(list: &[Statement]) -> String {
    list.iter().map(statement).collect::<Vec<_>>().join(" ")
}

fn optional(value: &Option<Expression>) -> String {
    value.as_ref().map(expression).unwrap_or_default()
}

fn statement(statement: &Statement) -> String {
    let show = self::statement;
    match &statement.kind {
        StatementKind::Declare(list) => format!("{};", joined(list, declaration)),
        StatementKind::Alias(alias) => format!("{}: {}", alias.name, type_name(&alias.ty)),
        StatementKind::Expression(value) => format!("{};", expression(value)),
        StatementKind::Block(list) if list.is_empty() => "{ }".to_string(),
        StatementKind::Block(list) => format!("{{ {} }}", statements(list)),
        StatementKind::If { condition, then, otherwise } => {
            let behind = otherwise.as_ref().map(|other| format!(" else {}", show(other)));
            format!("if ({}) {}{}", expression(condition), show(then), behind.unwrap_or_default())
        }
        StatementKind::For { first, condition, step, body } => {
            let first = first.as_ref().map_or(";".to_string(), |first| show(first));
            format!("for ({first} {}; {}) {}", optional(condition), optional(step), show(body))
        }
        StatementKind::While { condition, body } => {
            format!("while ({}) {}", expression(condition), show(body))
        }
        StatementKind::DoWhile { body, condition } => {
            format!("do {} while ({});", show(body), expression(condition))
        }
        StatementKind::Switch { value, cases } => {
            let mut shown = format!("switch ({}) {{", expression(value));
            for case in cases {
                let label = |label: &Option<Expression>| {
                    label.as_ref().map_or("default".to_string(), expression)
                };
                shown += &format!(" [{}] {}", joined(&case.labels, label), statements(&case.body));
            }
            shown + " }"
        }
        StatementKind::Break => "break;".to_string(),
        StatementKind::Continue => "continue;".to_string(),
        StatementKind::Return(None) => "return;".to_string(),
        StatementKind::Return(Some(value)) => format!("return {};", expression(value)),
        StatementKind::Empty => ";".to_string(),
    }
}

pub(super) fn expression(value: &Expression) -> String {
    let show = |value: &Expression| expression(value);
    match &value.kind {
        ExpressionKind::Integer { value, is_unsigned, is_long } => {
            let unsigned = if *is_unsigned { "u" } else { "" };
            format!("{value}{unsigned}{}", if *is_long { "l" } else { "" })
        }
        ExpressionKind::Float { value, is_half } => {
            format!("{value:?}{}", if *is_half { "h" } else { "" })
        }
        ExpressionKind::Bool(value) => value.to_string(),
        ExpressionKind::Name(name, template) => format!("{name}{}", arguments(template)),
        ExpressionKind::Unary(operator, value) => format!("({}{})", unary(*operator), show(value)),
        ExpressionKind::Step { place, by, is_postfix } => {
            let sign = if *by > 0 { "++" } else { "--" };
            let place = show(place);
            if *is_postfix { format!("({place}{sign})") } else { format!("({sign}{place})") }
        }
        ExpressionKind::Binary(operator, left, right) => {
            format!("({} {} {})", show(left), binary(*operator), show(right))
        }
        ExpressionKind::Assign(operator, place, value) => {
            format!("({} {}= {})", show(place), operator.map_or("", binary), show(value))
        }
        ExpressionKind::Conditional(condition, then, otherwise) => {
            format!("({} ? {} : {})", show(condition), show(then), show(otherwise))
        }
        ExpressionKind::Comma(left, right) => format!("({} , {})", show(left), show(right)),
        ExpressionKind::Call { name, template, arguments: list } => {
            format!("{name}{}({})", arguments(template), joined(list, expression))
        }
        ExpressionKind::CallOf { ty, name, arguments } => {
            format!("{}::{name}({})", type_name(ty), joined(arguments, expression))
        }
        ExpressionKind::CallOn { value, name, template, arguments: list } => {
            format!("{}.{name}{}({})", show(value), arguments(template), joined(list, expression))
        }
        ExpressionKind::Index(base, index) => format!("{}[{}]", show(base), show(index)),
        ExpressionKind::Member(base, name) => format!("{}.{name}", show(base)),
        ExpressionKind::Cast(ty, value) => format!("cast<{}>({})", type_name(ty), show(value)),
        ExpressionKind::Bits(ty, value) => format!("bits<{}>({})", type_name(ty), show(value)),
        ExpressionKind::Construct(ty, list) => {
            format!("{}({})", type_name(ty), joined(list, expression))
        }
        ExpressionKind::Braces(ty, list) => {
            format!("{}{{{}}}", type_name(ty), joined(list, initial))
        }
        ExpressionKind::SizeOf(ty) => format!("sizeof({})", type_name(ty)),
    }
}

fn unary(operator: UnaryOperator) -> &'static str {
    match operator {
        UnaryOperator::Plus => "+",
        UnaryOperator::Minus => "-",
        UnaryOperator::Not => "!",
        UnaryOperator::Complement => "~",
        UnaryOperator::Pointee => "*",
        UnaryOperator::AddressOf => "&",
    }
}

fn binary(operator: BinaryOperator) -> &'static str {
    match operator {
        BinaryOperator::Add => "+",
        BinaryOperator::Subtract => "-",
        BinaryOperator::Multiply => "*",
        BinaryOperator::Divide => "/",
        BinaryOperator::Remainder => "%",
        BinaryOperator::ShiftLeft => "<<",
        BinaryOperator::ShiftRight => ">>",
        BinaryOperator::And => "&",
        BinaryOperator::Or => "|",
        BinaryOperator::Xor => "^",
        BinaryOperator::Less => "<",
        BinaryOperator::LessEqual => "<=",
        BinaryOperator::Greater => ">",
        BinaryOperator::GreaterEqual => ">=",
        BinaryOperator::Equal => "==",
        BinaryOperator::NotEqual => "!=",
        BinaryOperator::Both => "&&",
        BinaryOperator::Either => "||",
    }
}
