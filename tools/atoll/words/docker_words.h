// Corrections for docker's words that Atoll spells otherwise or does not have.
#pragma once

#include <string>

#include "tools/atoll/words/grammar.h"

namespace atl::cli {

// Returns what to type instead of a word that `verb` does not have, or the nearest verb it has.
std::string UnknownVerb(const Verb& verb, const std::string& word);
// The same for an option.
std::string UnknownOption(const Verb& verb, const std::string& name);

}  // namespace atl::cli
