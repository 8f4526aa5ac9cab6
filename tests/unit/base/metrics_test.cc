#include "runtime/base/metrics.h"

#include <gtest/gtest.h>

#include <string>

namespace atl {
namespace {

constexpr double kBounds[] = {0.5, 1};

TEST(Metrics, IsTheTextThatPrometheusReads) {
  MetricSet metrics;
  metrics.Counter("a_total", "Line\nand \\.", {"x", "n"})
      .Add(uint64_t{1'000'000}, {"say \"\\\n\"", int64_t{7}})
      .Add(0.25, {"", true});
  metrics.Gauge("b_bytes", "None.");
  Distribution times;
  for (const double value : {0.25, 0.5, 0.75, 4.0}) times.Record(value, kBounds);
  metrics.Histogram("c_seconds", "Times.", kBounds, {"k"})
      .Add(times, {"v"})
      .Add(Distribution(), {"none"});
  EXPECT_EQ(PrometheusText(metrics),
            "# HELP a_total Line\\nand \\\\.\n"
            "# TYPE a_total counter\n"
            "a_total{x=\"say \\\"\\\\\\n\\\"\",n=\"7\"} 1000000\n"
            "a_total{x=\"\",n=\"true\"} 0.25\n"
            "# HELP b_bytes None.\n"
            "# TYPE b_bytes gauge\n"
            "# HELP c_seconds Times.\n"
            "# TYPE c_seconds histogram\n"
            "c_seconds_bucket{k=\"v\",le=\"0.5\"} 2\n"
            "c_seconds_bucket{k=\"v\",le=\"1\"} 3\n"
            "c_seconds_bucket{k=\"v\",le=\"+Inf\"} 4\n"
            "c_seconds_sum{k=\"v\"} 5.5\n"
            "c_seconds_count{k=\"v\"} 4\n"
            "c_seconds_bucket{k=\"none\",le=\"0.5\"} 0\n"
            "c_seconds_bucket{k=\"none\",le=\"1\"} 0\n"
            "c_seconds_bucket{k=\"none\",le=\"+Inf\"} 0\n"
            "c_seconds_sum{k=\"none\"} 0\n"
            "c_seconds_count{k=\"none\"} 0\n");
}

TEST(Metrics, TheUnitIsThatOfTheName) {
  MetricSet metrics;
  EXPECT_STREQ(metrics.Counter("cpu_seconds_total", "").unit, "s");
  EXPECT_STREQ(metrics.Gauge("free_bytes", "").unit, "By");
  EXPECT_STREQ(metrics.Gauge("open", "").unit, "1");
  EXPECT_STREQ(metrics.Histogram("upstreams", "", kBounds, {}, "ms").unit, "ms");
}

TEST(Metrics, MergesWhatIsOfAnotherScale) {
  Distribution millis, both;
  for (const double value : {250.0, 500.0, 3000.0}) {
    const double bounds[] = {500, 1000};
    millis.Record(value, bounds);
  }
  both.Record(0.75, kBounds);
  both.Merge(millis, 1e-3);
  both.Merge(Distribution(), 1);
  EXPECT_EQ(both.buckets, (std::vector<uint64_t>{2, 1, 1}));
  EXPECT_EQ(both.count, 4U);
  EXPECT_DOUBLE_EQ(both.sum, 4.5);
  EXPECT_DOUBLE_EQ(both.min, 0.25);
  EXPECT_DOUBLE_EQ(both.max, 3);
}

TEST(Metrics, KeepsTheSamplesOfOneLabel) {
  MetricSet metrics;
  metrics.Gauge("atoll_a", "A.", {"tenant"}).Add(1, {"red"}).Add(2, {"blue"});
  metrics.Gauge("atoll_b", "B.").Add(3);
  metrics.Gauge("atoll_c", "C.", {"state"}).Add(4, {"red"});
  metrics.KeepLabelled("tenant", "red");
  const std::string text = PrometheusText(metrics);
  EXPECT_NE(text.find("atoll_a{tenant=\"red\"} 1"), std::string::npos) << text;
  for (const char* other : {"blue", "atoll_b", "atoll_c"}) {
    EXPECT_EQ(text.find(other), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace atl
