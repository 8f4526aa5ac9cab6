// Help with a usage line of our own: CLI11 does not know of the command that follows "--".
#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>
#include <string>
#include <utility>

namespace atl::cli {

class UsageFormatter : public CLI::Formatter {
 public:
  explicit UsageFormatter(std::string usage) : usage_(std::move(usage)) {}
  std::string make_usage(const CLI::App* /*app*/, std::string /*name*/) const override {
    return "Usage: " + usage_ + "\n";
  }

 private:
  std::string usage_;
};

inline void SetUsage(CLI::App* app, std::string usage) {
  app->formatter(std::make_shared<UsageFormatter>(std::move(usage)));
}

}  // namespace atl::cli
