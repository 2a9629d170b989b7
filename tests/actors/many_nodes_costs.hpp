#pragma once
// That a run of many nodes costs each of them no more than one of few (many_nodes.hpp), as an expectation of tests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <troupe/tests/actors/many_nodes.hpp>

namespace troupe::actors::testing {

inline void expect_no_more(const ManyNodes::Share& many, const ManyNodes::Share& few, const char* when) {
  EXPECT_LE(many.control, 1.1 * few.control) << "messages " << when;
  EXPECT_LE(many.entries, 1.1 * few.entries) << "entries of their lists " << when;
}

inline void expect_the_same_of_each(std::int64_t few_nodes, std::int64_t many_nodes) {
  const Costs few = costs_of(few_nodes);
  const Costs many = costs_of(many_nodes);
  for (const Costs* costs : {&few, &many}) {
    EXPECT_GE(costs->all_in, Duration::zero()) << "not all came in";
    EXPECT_GE(costs->cut_took, Duration::zero()) << "no checkpoint";
    EXPECT_THAT(costs->findings, ::testing::IsEmpty());
  }
  expect_no_more(many.start, few.start, "until all are in");
  expect_no_more(many.ten_seconds, few.ten_seconds, "while nothing happens");
  expect_no_more(many.cut, few.cut, "for a cut");
}

}  // namespace troupe::actors::testing
