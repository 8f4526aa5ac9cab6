// A certificate for 127.0.0.1 and localhost, made on the spot.
#pragma once

#include <string>

namespace atl::http {

struct TestCertificate {
  // `days`: until it expires; negative: it has.
  explicit TestCertificate(const std::string& name = "localhost", int days = 1);
  std::string certificate;  // PEM
  std::string key;          // PEM
  std::string locked_key;   // with a passphrase
};

// A directory of its own with files; gone with it.
class TestFiles {
 public:
  TestFiles();
  ~TestFiles();
  // The path of a file with that content.
  std::string Write(const std::string& name, const std::string& text, unsigned mode = 0600);

 private:
  std::string directory_;
};

}  // namespace atl::http
