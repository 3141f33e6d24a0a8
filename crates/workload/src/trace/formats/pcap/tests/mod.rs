mod capture;
mod exchanges;
mod losses;
mod orders;
