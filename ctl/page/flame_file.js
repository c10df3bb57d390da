// Starts the page of a file that profctl wrote: the tree is in the file.

import {FlamePage} from "./flame_page.js";

const data = JSON.parse(document.getElementById("data").textContent);
new FlamePage(document.body, data);
performance.mark("profd-shown");
