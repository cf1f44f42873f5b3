//! What a program is made of, as it was written: names are not resolved, types are not checked.

/// A whole program.
#[derive(Debug, Clone, Default)]
pub(crate) struct Program {
    pub(crate) functions: Vec<Function>,
    pub(crate) structs: Vec<Struct>,
    /// Variables of the program: constants.
    pub(crate) constants: Vec<Declaration>,
    pub(crate) aliases: Vec<Alias>,
    /// Templates that are asked for with these arguments, by their names.
    pub(crate) instances: Vec<Instance>,
}

/// `template [[host_name("…")]] [[kernel]] decltype(NAME<…>) NAME<…>;`
#[derive(Debug, Clone)]
pub(crate) struct Instance {
    pub(crate) function: String,
    pub(crate) arguments: Vec<TemplateArgument>,
}

/// `using NAME = TYPE;` or `typedef TYPE NAME;`
#[derive(Debug, Clone)]
pub(crate) struct Alias {
    pub(crate) name: String,
    pub(crate) ty: TypeName,
}

#[derive(Debug, Clone)]
pub(crate) struct Struct {
    pub(crate) name: String,
    pub(crate) template: Vec<TemplateParameter>,
    pub(crate) fields: Vec<Declaration>,
}

#[derive(Debug, Clone)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) template: Vec<TemplateParameter>,
    pub(crate) result: TypeName,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) body: Vec<Statement>,
    pub(crate) is_kernel: bool,
    pub(crate) line: u32,
}

#[derive(Debug, Clone)]
pub(crate) struct TemplateParameter {
    pub(crate) name: String,
    /// The type of a value; nothing stands for `typename`.
    pub(crate) of: Option<TypeName>,
    pub(crate) default: Option<TemplateArgument>,
}

#[derive(Debug, Clone)]
pub(crate) enum TemplateArgument {
    Type(TypeName),
    Value(Expression),
}

#[derive(Debug, Clone)]
pub(crate) struct Parameter {
    pub(crate) ty: TypeName,
    pub(crate) name: String,
    /// Sizes in brackets behind the name; the first may be empty.
    pub(crate) array: Vec<Option<Expression>>,
    pub(crate) attribute: Option<Attribute>,
    pub(crate) default: Option<Expression>,
}

/// `[[NAME]]` or `[[NAME(NUMBER)]]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attribute {
    pub(crate) name: String,
    pub(crate) argument: Option<u32>,
}

/// An address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Space {
    Device,
    Constant,
    Threadgroup,
    Thread,
}

/// A type as it is named: `device const T* const*`, `thread float&`, `vec<T, 4>`, `auto`.
#[derive(Debug, Clone)]
pub(crate) struct TypeName {
    pub(crate) space: Option<Space>,
    pub(crate) is_const: bool,
    pub(crate) base: BaseType,
    /// How many `*` there are.
    pub(crate) pointers: u32,
    pub(crate) is_reference: bool,
    pub(crate) line: u32,
}

#[derive(Debug, Clone)]
pub(crate) enum BaseType {
    Auto,
    /// A name without namespaces (`uint`, `T`, `vec<T, 4>`, `unsigned int` as `uint`).
    Named(String, Vec<TemplateArgument>),
    Decltype(Box<Expression>),
}

/// A variable.
#[derive(Debug, Clone)]
pub(crate) struct Declaration {
    pub(crate) ty: TypeName,
    pub(crate) name: String,
    /// Sizes in brackets behind the name; one that the value gives is empty.
    pub(crate) array: Vec<Option<Expression>>,
    pub(crate) value: Option<Initial>,
    pub(crate) line: u32,
}

/// What a variable begins as.
#[derive(Debug, Clone)]
pub(crate) enum Initial {
    Value(Expression),
    /// `{…}`
    List(Vec<Initial>),
}

#[derive(Debug, Clone)]
pub(crate) struct Statement {
    pub(crate) kind: StatementKind,
    pub(crate) line: u32,
}

#[derive(Debug, Clone)]
pub(crate) enum StatementKind {
    Declare(Vec<Declaration>),
    Alias(Alias),
    Expression(Expression),
    Block(Vec<Statement>),
    If {
        condition: Expression,
        then: Box<Statement>,
        otherwise: Option<Box<Statement>>,
    },
    For {
        first: Option<Box<Statement>>,
        condition: Option<Expression>,
        step: Option<Expression>,
        body: Box<Statement>,
    },
    While {
        condition: Expression,
        body: Box<Statement>,
    },
    DoWhile {
        body: Box<Statement>,
        condition: Expression,
    },
    Switch {
        value: Expression,
        cases: Vec<Case>,
    },
    Break,
    Continue,
    Return(Option<Expression>),
    Empty,
}

/// Statements behind labels; the last of them may go on with the next case's.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    /// `default` is empty.
    pub(crate) labels: Vec<Option<Expression>>,
    pub(crate) body: Vec<Statement>,
}

#[derive(Debug, Clone)]
pub(crate) struct Expression {
    pub(crate) kind: ExpressionKind,
    pub(crate) line: u32,
}

#[derive(Debug, Clone)]
pub(crate) enum ExpressionKind {
    /// The value, and what `u` and `l` behind it say.
    Integer {
        value: u64,
        is_unsigned: bool,
        is_long: bool,
    },
    /// The value; whether an `h` makes it a half.
    Float {
        value: f64,
        is_half: bool,
    },
    Bool(bool),
    /// A name without namespaces, with arguments of a template.
    Name(String, Vec<TemplateArgument>),
    Unary(UnaryOperator, Box<Expression>),
    /// `++` and `--`: by how much, and whether the value is the one before.
    Step {
        place: Box<Expression>,
        by: i32,
        is_postfix: bool,
    },
    Binary(BinaryOperator, Box<Expression>, Box<Expression>),
    /// `=`, or `+=` and so on.
    Assign(Option<BinaryOperator>, Box<Expression>, Box<Expression>),
    Conditional(Box<Expression>, Box<Expression>, Box<Expression>),
    Comma(Box<Expression>, Box<Expression>),
    /// A function of the program or of the language.
    Call {
        name: String,
        template: Vec<TemplateArgument>,
        arguments: Vec<Expression>,
    },
    /// `numeric_limits<T>::max()`, `S::f(a)`: a static function of a type, by both their names.
    CallOf {
        ty: TypeName,
        name: String,
        arguments: Vec<Expression>,
    },
    /// `a.f(b)`, and `a(b)` as that of `operator()`: a function of the struct that a value has.
    CallOn {
        value: Box<Expression>,
        name: String,
        template: Vec<TemplateArgument>,
        arguments: Vec<Expression>,
    },
    Index(Box<Expression>, Box<Expression>),
    /// `a.b`; `a->b` is that of `*a`.
    Member(Box<Expression>, String),
    /// `(T)a`, `static_cast<T>(a)`, `reinterpret_cast<T>(a)`
    Cast(TypeName, Box<Expression>),
    /// `as_type<T>(a)`: the same bits.
    Bits(TypeName, Box<Expression>),
    /// `T(a, b)`
    Construct(TypeName, Vec<Expression>),
    /// `T{a, b}`, also `{a, b}` where a value is returned (then the type is `auto`).
    Braces(TypeName, Vec<Initial>),
    SizeOf(TypeName),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnaryOperator {
    Plus,
    Minus,
    /// `!`
    Not,
    /// `~`
    Complement,
    /// `*`
    Pointee,
    /// `&`
    AddressOf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum BinaryOperator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    ShiftLeft,
    ShiftRight,
    And,
    Or,
    Xor,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Equal,
    NotEqual,
    /// `&&`
    Both,
    /// `||`
    Either,
}
