mod capture;
mod exchanges;
mod files;
mod losses;
mod orders;
