// What the programs of bench/ have in common: their command line, their output.
#pragma once

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

Status WriteOutput(const std::string& path, const std::string& text);

// To standard error; the exit status of a measurement that could not be made.
int CannotMeasure(const Error& error);

// One line to the terminal before each part; the tables alone are the output.
void Progress(const char* what);

}  // namespace atl::bench
