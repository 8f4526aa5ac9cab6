// What the programs of bench/ have in common: their command line, their output.
#pragma once

#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/result.h"

namespace atl::bench {

// "--name VALUE" pairs. What is in `required` must be there and not empty.
struct OptionTable {
  std::map<std::string, std::string*> texts;
  std::map<std::string, int*> numbers;  // from 1
  std::vector<std::string> required;
};
Status ParseOptions(const std::vector<std::string>& arguments, const OptionTable& table);

// An empty path: nowhere.
Status WriteOutput(const std::string& path, const std::string& text);

// To standard error; the exit status of a measurement that could not be made.
int CannotMeasure(const Error& error);

// True as root; else says so.
bool IsRoot();

// The rest of main(): what is wrong with the options ends in the usage and 2.
template <typename Options>
int RunBench(const Result<Options>& options, const char* usage, int (*run)(const Options&)) {
  if (!options) {
    CannotMeasure(options.error());
    std::fputs(usage, stderr);
    return 2;
  }
  return IsRoot() ? run(*options) : 2;
}

// One line to the terminal before each part; the tables alone are the output.
void Progress(const char* what);

}  // namespace atl::bench
