"""The history of a group tells what it is and was: one fold, and the views that show it.

`fold.GroupFold` follows the records of one group. It drops repetitions, knows where a life of the group begins, and has
each record read into the words of `view.HistoryView`, which are the same for every kind of group. `classic` says what
each record of a classic group means in these words; another kind of group has a module like it. Tables, dashboard,
narrative, summary and metrics are views: each overrides what it shows. A view looks at a record's type only where
it shows what no other kind of group has.
"""
