// What people who come from docker type and we call otherwise, or do not have.
#pragma once

#include <string>

#include "tools/atoll/words/grammar.h"

namespace atl::cli {

// Of a word that is none of `verb`'s: what to type instead, or the nearest of those there are.
std::string UnknownVerb(const Verb& verb, const std::string& word);
// The same of an option.
std::string UnknownOption(const Verb& verb, const std::string& name);

}  // namespace atl::cli
