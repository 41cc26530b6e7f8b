"""The history of a group tells what it is and was: one fold, and the views that show it.

`fold.GroupFold` follows the records of one group. It drops repetitions, knows where a life of the group begins, and has
each record read into the words of `view.HistoryView`, which are the same for every kind of group. `meanings` says what
each record means in these words. Tables, dashboard, narrative, summary and metrics are views: each overrides what it
shows. `current_group.CurrentGroup` is the group as it is now, which the rebalances of the narrative go on from, and
`states_over_time` when it was in which state, which the dashboard's facts go on from.
"""
