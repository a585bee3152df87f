// `await using` needs the symbol to be there before the classes that have it as a member; runtimes that lack it get
// the one that compilers fall back to.
const symbols = Symbol as { asyncDispose?: symbol };
symbols.asyncDispose ??= Symbol.for("Symbol.asyncDispose");
