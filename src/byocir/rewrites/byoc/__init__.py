"""The hand-off decides which target takes which ops. It is written once, and run at both levels.

```
set-targets         names the targets of the module, in order of preference
place-nodes         marks what the user placed by hand (`place_by_hand`, `markers`)
match-composites    decides who takes what: the first target whose pattern and rules fit or, with an
                    objective, the cheapest one (`choose_target`) and the host (`choose_host`)
assign-targets      a region for each composite
merge-regions       fewer and larger regions, never in a circle (`grouping`, `quotient`, `join`)
place-constants     weights inside of regions, or outside
outline-regions     a function for each region, and a call in its place
check-placement     refuses what was placed by hand and went elsewhere, behind the last hand-off
verify-regions      checks all that, whoever made it: for pipelines of your own
```
"""
